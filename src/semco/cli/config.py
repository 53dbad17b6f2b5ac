"""``semco config``: what recipes, a file and settings ask for, and what that leads to on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from semco.cli.options import default_recipe

if TYPE_CHECKING:
    from semco.config import Config
    from semco.resolve import Resolution


def config(
    data: Annotated[str | None, typer.Argument(help="The data to train on, as in 'semco train'.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipes, later ones win: a,b,c; see 'semco recipes'.")] = None,
    file: Annotated[Path | None, typer.Option("--config", help="A YAML file of configuration values.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="dotted.key=value.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is asked for as JSON.")] = False,
) -> None:
    """Show every field: what is asked for, what is used for these data on this machine, and why."""
    from semco.config import flat_fields, merge_layers
    from semco.config.layers import layers_of, origins
    from semco.experiment.plan import with_default_minutes

    options = {"data": {"source": data}} if data else None
    if not (recipe or file):
        recipe = default_recipe(data)
    layers = layers_of(recipe, file, options, setting or ())
    request = with_default_minutes(merge_layers(layers)) if data else merge_layers(layers)
    if as_json:
        typer.echo(json.dumps(request.model_dump(mode="json")))
        return
    set_by, resolution = origins(layers), _resolution(request)
    used = {} if resolution is None else flat_fields(resolution.config.model_dump(mode="json"))
    reasons = {} if resolution is None else resolution.reasons
    table = Table("field", "asked for", "used", "why", box=None)
    for name, value in flat_fields(request.model_dump(mode="json")).items():
        asked, why = json.dumps(value), reasons.get(name, set_by.get(name, ""))
        now = json.dumps(used[name]) if name in used and used[name] != value else ""
        table.add_row(name, asked, now, why, style="" if now or name in set_by else "dim")
    Console(highlight=False).print(table)


def _resolution(request: Config) -> Resolution | None:
    """Return what a request leads to; without its data only the request is known, and the reason is printed."""
    from semco.errors import UserError
    from semco.experiment.loading import load_request
    from semco.resolve import Machine, resolve
    from semco.training.observer import NullObserver

    try:
        loaded = load_request(request, NullObserver())
    except UserError as error:
        note = f"only what is asked for can be shown, because the data cannot be read: {error}"
        Console(stderr=True, soft_wrap=True).print(note, style="dim", markup=False, highlight=False)
        return None
    return resolve(request, loaded.facts, Machine.of_this_process())
