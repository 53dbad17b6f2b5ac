"""``semco methods``: what can be trained."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from semco.cli.settings import show_fields


def methods(
    name: str = typer.Argument(None, help="Show this method's own fields."),
) -> None:
    """List the methods, or one method's fields: defaults, what they take, and what they mean."""
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
    Console().print(registry[name].title, style="bold", highlight=False)
    show_fields("method", registry[name].Config)
