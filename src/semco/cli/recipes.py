"""``semco recipes``: named runs."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Column, Table


def recipes(name: str = typer.Argument(None, help="Show this recipe's values.")) -> None:
    """List the named runs with the error the paper reports, or show one."""
    import yaml

    from semco.errors import unknown
    from semco.recipes import RECIPES

    console = Console()
    if name is not None:
        if name not in RECIPES:
            raise unknown("recipe", name, RECIPES)
        console.print(yaml.safe_dump(RECIPES[name].values, sort_keys=False), highlight=False, markup=False)
        return
    # Names are there to be typed: they are never cut.
    table = Table(
        Column("recipe", no_wrap=True, min_width=max(map(len, RECIPES))), "what it is", "published error, %", box=None
    )
    for key, recipe in RECIPES.items():
        if not key.endswith("-cpu"):
            table.add_row(key, recipe.about, recipe.published)
    console.print(table)
    console.print(
        "Each run of the paper has a twin NAME-cpu that two cores can finish. SemCo there is ours, in the paper's "
        "setting; the paper's own rule is added by --set method.scoring=paper --set labels.targets=embedding.",
        style="dim",
    )
