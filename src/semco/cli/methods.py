"""``semco methods``: the methods that can be trained."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from semco.cli.settings import show_fields


def methods(
    name: str = typer.Argument(None, help="Show the fields of this method."),
) -> None:
    """List the methods, or the fields of one: default, allowed values, meaning."""
    from semco.errors import unknown
    from semco.methods import Method

    if name is None:
        table = Table("method", "what it is", "heads", box=None)
        for key, method in sorted(Method.registry.items()):
            table.add_row(key, method.title, ", ".join(method.heads))
        Console().print(table)
        return
    if name not in Method.registry:
        raise unknown("method", name, Method.registry)
    Console().print(Method.registry[name].title, style="bold", highlight=False)
    show_fields("method", Method.registry[name].Config)
