"""``semco methods``: what can be trained."""

from __future__ import annotations

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
    for field, info in registry[name].Config.model_fields.items():
        if field != "name":
            table.add_row(f"method.{field}", str(info.default), str(info.annotation).replace("typing.", ""))
    Console().print(table)
