"""``semco bench``: how fast the parts are, each as a ratio inside one run."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(help="Measure speed, as ratios inside one run.", no_args_is_help=True)


@app.command()
def augment(
    size: int = typer.Option(32, min=8, help="Height and width of the images."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Weak and strong views, against a Pillow loop that makes the same ones, on one core."""
    from semco.bench.augment import augment as measure

    result = measure(size=size)
    if as_json:
        typer.echo(json.dumps(result))
        return
    table = Table("views", "ours, us an image", "Pillow, us an image", "times faster", box=None)
    for kind, ratio in result["ratio"].items():
        table.add_row(kind, str(result["ours_us"][kind]), str(result["pillow_us"][kind]), str(ratio))
    Console().print(table)
