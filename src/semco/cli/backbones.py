"""``semco backbones``: the networks that can be trained, their weights, and how fast they are on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

# Side in pixels at which a backbone without a size of its own is timed: wide ResNets are for small images.
SMALL, LARGE = 32, 224
WEIGHTS = {"installed": "installed", "not installed": "install semco[pretrained]", "none": "no"}


@dataclass(frozen=True)
class Row:
    """One row of the table of backbones."""

    name: str
    parameters: int
    native_size: int | None  # None: any
    pretrained: str  # a key of WEIGHTS
    licence: str | None  # None: unknown, or there are no weights
    timed_size: int
    ms_per_image: float | None  # None: not measured


def backbones(
    names: Annotated[list[str] | None, typer.Argument(help="Only these, also hf:NAME_OR_FOLDER.")] = None,
    timing: Annotated[bool, typer.Option(help="Measure the time per image, which takes some seconds.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the backbones: parameters, image size, pretrained weights, and milliseconds per image on this machine."""
    from semco.models import KNOWN_BACKBONES

    rows = list(_rows(names or list(KNOWN_BACKBONES), timing))
    if as_json:
        typer.echo(json.dumps({"backbones": [asdict(row) for row in rows]}, indent=2))
        return
    console = Console()
    console.print(_table(rows, timing))
    console.print(
        "Also wrn-DEPTH-WIDTH of depth 6n+4, and hf:NAME_OR_FOLDER of a transformers model (install semco[hf]).",
        style="dim",
        highlight=False,
        markup=False,
    )


def _rows(names: list[str], timing: bool) -> Iterator[Row]:
    console = Console(stderr=True)
    for i, name in enumerate(names, start=1):
        with console.status(f"{'measuring' if timing else 'reading'} {name} ({i} of {len(names)})"):
            yield _row(name, timing)


def _row(name: str, timing: bool) -> Row:
    from semco.config import ModelConfig
    from semco.doctor import ms_per_image
    from semco.models import build_backbone, inspect_backbone
    from semco.models.hf import PREFIX
    from semco.models.pretrained import PUBLISHED_WEIGHTS, is_installed

    seen = inspect_backbone(ModelConfig(backbone=name), 3, LARGE)
    size = seen.native_size or (SMALL if name.startswith("wrn-") else LARGE)
    state = "none"
    if name in PUBLISHED_WEIGHTS:
        state = "installed" if is_installed(name) else "not installed"
    elif name.startswith(PREFIX):
        state = "installed"
    milliseconds = None
    if timing:
        milliseconds = ms_per_image(build_backbone(ModelConfig(backbone=name, pretrained="none"), 3, size), size)
    return Row(
        name=name,
        parameters=sum(parameter.numel() for parameter in seen.parameters()),
        native_size=seen.native_size,
        pretrained=state,
        licence=PUBLISHED_WEIGHTS[name].licence if name in PUBLISHED_WEIGHTS else None,
        timed_size=size,
        ms_per_image=milliseconds,
    )


def _table(rows: list[Row], timing: bool) -> Table:
    table = Table(Column("backbone", no_wrap=True), "parameters", "size", Column("pretrained", no_wrap=True), box=None)
    if timing:
        table.add_column("ms per image")
    for row in rows:
        cells = [escape(row.name), f"{row.parameters / 1e6:.2f} M", str(row.native_size or "any")]
        cells.append(escape(WEIGHTS[row.pretrained]))
        if row.ms_per_image is not None:
            cells.append(f"{row.ms_per_image:.1f} at {row.timed_size}")
        table.add_row(*cells)
    return table
