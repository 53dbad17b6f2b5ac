"""``semco evaluate``: a finished run on its test images, by any head."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path

import typer
from rich.console import Console


class HeadName(StrEnum):
    """The heads that can answer (`semco.evaluation.probabilities.HEADS`), known without loading torch."""

    one_hot = "one_hot"
    semantic = "semantic"
    average = "average"


def evaluate(
    run: Path = typer.Argument(..., help="A finished run folder."),
    head: HeadName = typer.Option(None, help="Which head answers; the run's own choice if not given."),
    as_json: bool = typer.Option(False, "--json", help="End with one JSON object."),
) -> None:
    """Measure a finished run on its test images: top-1, top-5, by class and by label group."""
    from semco.evaluation.run import evaluate_run
    from semco.report.tables import evaluation_tables

    evaluation = evaluate_run(run, None if head is None else head.value)
    if as_json:
        typer.echo(json.dumps({"run": str(run), **evaluation.summary()}))
        return
    console = Console()
    for table in evaluation_tables(evaluation):
        console.print(table)
