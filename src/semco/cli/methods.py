"""``semco methods``: what can be trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console
from rich.table import Table


def methods(
    name: str = typer.Argument(None, help="Show this method's own fields."),
) -> None:
    """List the methods, or one method's fields with their defaults."""
    import semco.methods as package
    from semco.errors import unknown

    registry = package.Method.registry
    if name is None:
        table = Table("method", "what it is", "heads", box=None)
        for key in sorted(registry):
            table.add_row(key, registry[key].title, ", ".join(registry[key].heads))
        Console().print(table)
        return
    if name not in registry:
        raise unknown("method", name, registry)
    table = Table("field", "default", "takes", title=registry[name].title, box=None)
    for field, schema in registry[name].Config.model_json_schema()["properties"].items():
        if field != "name":
            table.add_row(f"method.{field}", str(schema["default"]).lower(), takes(schema))
    Console().print(table)


# How the ends of a range are said, by their names in a JSON schema.
ENDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
KINDS = {"number": "a number", "integer": "a whole number", "boolean": "true or false"}


def takes(schema: Mapping[str, Any]) -> str:
    """What a field takes, in words, from its JSON schema."""
    if "anyOf" in schema:
        return " or ".join(takes(each) for each in schema["anyOf"])
    if named := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return ", ".join(named)
    ends = [f"{word} {schema[end]:g}" for end, word in ENDS.items() if end in schema]
    return " ".join([KINDS.get(schema["type"], schema["type"]), *ends])
