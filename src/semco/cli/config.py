"""``semco config``: the configuration that recipes, a file and settings make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def config(
    recipe: Annotated[str | None, typer.Option(help="Recipes, later ones win: a,b,c; see 'semco recipes'.")] = None,
    file: Annotated[Path | None, typer.Option("--config", help="A YAML file of configuration values.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="dotted.key=value.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the resolved configuration, and which layer set each value that is not a default."""
    from semco.config import flat_fields, resolve
    from semco.config.layers import layers_of, origins

    layers = layers_of(recipe, file, settings=setting or ())
    values = resolve(layers).model_dump(mode="json")
    if as_json:
        typer.echo(json.dumps(values))
        return
    set_by = origins(layers)
    table = Table("field", "value", "set by", box=None)
    for name, value in flat_fields(values).items():
        table.add_row(name, json.dumps(value), set_by.get(name, ""), style="" if name in set_by else "dim")
    Console(highlight=False).print(table)
