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

# The ends of a range in words, by their names in a JSON schema.
NO_END = 2**53  # limits from here on say nothing to a person
ENDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
KINDS = {
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "string": "text",
    "array": "a list: [a, b]",
    "object": "a mapping: {a: b}",
}


def settings(
    section: str = typer.Argument(
        None, help="Show only this section or field, for example training or training.steps."
    ),
) -> None:
    """List the fields that --set takes: default, allowed values, meaning."""
    from semco.config import Config
    from semco.config.schema import DEFAULT_METHOD, method_config_class
    from semco.errors import unknown

    sections: dict[str, type[Section]] = {name: type(values) for name, values in Config()}
    sections["method"] = method_config_class(DEFAULT_METHOD)
    name, _, field = (section or "").partition(".")
    if name and name not in sections:
        raise unknown("section", name, sections)
    field = field.partition(".")[0]  # a field of a rule is shown with the rule
    if field and field not in sections[name].model_fields:
        raise unknown(f"field of {name}", field, sections[name].model_fields)
    for each in [name] if name else sections:
        show_fields(each, sections[each], field)
    if name in ("", "method"):
        Console().print(
            "These are the fields of SemCo+; `semco methods NAME` shows those of other methods.", style="dim"
        )


def show_fields(section: str, config: type[Section], only: str = "") -> None:
    """Print each field, or only one, as it is written after --set: default, allowed values, and its meaning below."""
    console = Console(highlight=False)
    defaults = config.model_construct().model_dump(mode="json")
    for field, schema in config.model_json_schema()["properties"].items():
        if (section, field) == ("method", "name") or (only and field != only):
            continue
        branches = _branches(config, field)
        value = defaults[field]["rule"] if branches else defaults.get(field)
        allowed = ", ".join(branches) if branches else allowed_values(schema)
        name = f"{section}.{field}.rule" if branches else f"{section}.{field}"
        console.print(Text.assemble((name, "bold"), f"={_as_yaml(value)}  ", (allowed, "dim")))
        console.print(Padding(Text(meaning(config, field)), (0, 0, 0, 4)))
        for rule, branch in branches.items():
            _show_branch(console, f"{section}.{field}", rule, branch)


def _show_branch(console: Console, prefix: str, rule: str, config: type[Section]) -> None:
    """Print the fields that a field has under one of its rules."""
    defaults = config.model_construct().model_dump(mode="json")
    for field, schema in config.model_json_schema()["properties"].items():
        if field != "rule":
            line = Text.assemble((f"{prefix}.{field}", "bold"), f"={_as_yaml(defaults[field])}  ")
            console.print(Padding(line.append(f"{allowed_values(schema)} (with rule {rule})", "dim"), (0, 0, 0, 4)))
            console.print(Padding(Text(meaning(config, field)), (0, 0, 0, 8)))


def _branches(config: type[Section], field: str) -> dict[str, type[Section]]:
    """Return the sections that a field chooses among, by their rule; empty for an ordinary field."""
    branches = getattr(config.model_fields[field].annotation, "__args__", ())
    sections = [each for each in branches if "rule" in getattr(each, "model_fields", {})]
    return {each.model_fields["rule"].default: each for each in sections}


def _as_yaml(value: object) -> str:
    import yaml

    return yaml.safe_dump(value, default_flow_style=True, width=200).removesuffix("...\n").strip()


def meaning(config: type[Section], field: str) -> str:
    """Return the description of a field; a subclass that only changes the default inherits it."""
    for each in config.__mro__:
        about = getattr(each, "model_fields", {}).get(field)
        if about is not None and about.description:
            return " ".join(about.description.split())
    raise AssertionError(f"{config.__name__}.{field} has no description")


def allowed_values(schema: Mapping[str, Any]) -> str:
    """Return the allowed values of a field in words, from its JSON schema."""
    if "anyOf" in schema:
        return " or ".join(allowed_values(each) for each in schema["anyOf"])
    if named := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return ", ".join(named)
    ends = [f"{word} {schema[end]:g}" for end, word in ENDS.items() if abs(schema.get(end, NO_END)) < NO_END]
    return " ".join([KINDS.get(schema["type"], schema["type"]), *ends])
