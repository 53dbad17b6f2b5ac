"""``semco settings``: every field that ``--set`` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

if TYPE_CHECKING:
    from semco.config import Section

# How the ends of a range are said, by their names in a JSON schema.
ENDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
KINDS = {
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "string": "text",
    "array": "a list: [a, b]",
    "object": "a mapping: {a: b}",
}


def settings(section: str = typer.Argument(None, help="Show this section alone, for example training.")) -> None:
    """List the fields that --set takes: defaults, what they take, and what they mean."""
    import semco.methods  # noqa: F401 (fills the registry)
    from semco.config import Config
    from semco.errors import unknown

    sections = {name: type(values) for name, values in Config()}
    if section is not None and section not in sections:
        raise unknown("section", section, sections)
    for name in sections if section is None else [section]:
        show_fields(name, sections[name])
    if section in (None, "method"):
        Console().print("The method is SemCo; the fields of others are shown by `semco methods NAME`.", style="dim")


def show_fields(section: str, config: type[Section]) -> None:
    """Each field as it is written after --set, with its default, what it takes, and what it means below."""
    import yaml

    console = Console(highlight=False)
    defaults = config.model_construct().model_dump(mode="json")
    for field, schema in config.model_json_schema()["properties"].items():
        if (section, field) == ("method", "name"):
            continue
        value = yaml.safe_dump(defaults.get(field), default_flow_style=True, width=200).removesuffix("...\n").strip()
        line = Text.assemble((f"{section}.{field}", "bold"), f"={value}  ", (takes(schema), "dim"))
        console.print(line)
        console.print(Padding(Text(meaning(config, field)), (0, 0, 0, 4)))


def meaning(config: type[Section], field: str) -> str:
    """What a field means; one that is only given another default means what it did."""
    for each in config.__mro__:
        about = getattr(each, "model_fields", {}).get(field)
        if about is not None and about.description:
            return " ".join(about.description.split())
    raise AssertionError(f"{config.__name__}.{field} has no meaning")


def takes(schema: Mapping[str, Any]) -> str:
    """What a field takes, in words, from its JSON schema."""
    if "anyOf" in schema:
        return " or ".join(takes(each) for each in schema["anyOf"])
    if named := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return ", ".join(named)
    ends = [f"{word} {schema[end]:g}" for end, word in ENDS.items() if end in schema]
    return " ".join([KINDS.get(schema["type"], schema["type"]), *ends])
