"""``semco recipes``: named layers of configuration values."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Column, Table


def recipes(name: str = typer.Argument(None, help="Show the values of this recipe.")) -> None:
    """List the recipes, those of the paper's tables with the published error, or show one."""
    import yaml

    from semco.config.recipes import find_recipe
    from semco.config.recipes import recipes as all_recipes

    console = Console()
    if name is not None:
        recipe = find_recipe(name)
        console.print(recipe.about, style="bold", highlight=False, markup=False)
        if recipe.extends:
            console.print(f"on top of: {', '.join(recipe.extends)}", highlight=False, markup=False)
        console.print(yaml.safe_dump(recipe.values, sort_keys=False), highlight=False, markup=False)
        return
    layers = {key: recipe for key, recipe in all_recipes().items() if not recipe.published}
    table = Table(_never_cut("recipe", layers), "what it is", box=None)
    for key, recipe in layers.items():
        table.add_row(key, recipe.about)
    console.print(table)
    console.print(_published_table())
    console.print(
        "Recipes are layers: --recipe cifar100-2500-mu3,semco,no-grouping puts three of them on top of each other; a "
        "method is a recipe too. 'cpu' after a cell makes it small enough for two cores, which is not published.",
        style="dim",
    )


def _published_table() -> Table:
    """Return the cells of the paper's tables with the published error of each method."""
    from semco.config.recipes import published_error
    from semco.config.recipes import recipes as all_recipes

    rows = [
        (f"{cell},{method}", published_error([cell, method]))
        for cell, recipe in all_recipes().items()
        if recipe.published
        for method in (*recipe.published, "semco_plus")
    ]
    table = Table(_never_cut("cell of the paper", [name for name, _ in rows]), "published error, %", box=None)
    for name, error in rows:
        table.add_row(name, error)
    return table


def _never_cut(title: str, names: object) -> Column:
    """Return a column whose names are never shortened, because they are there to be typed."""
    return Column(title, no_wrap=True, min_width=max(map(len, names)))  # type: ignore[call-overload]
