"""``semco evaluate``: evaluate a finished run on its test images."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path

import typer
from rich.console import Console


class HeadName(StrEnum):
    """The heads that can predict (`semco.evaluation.probabilities.HEADS`), repeated here to avoid importing torch."""

    one_hot = "one_hot"
    semantic = "semantic"
    average = "average"


def evaluate(
    run: Path = typer.Argument(..., help="A finished run folder."),
    head: HeadName = typer.Option(None, help="The head that predicts.", show_default="the head of the run"),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of tables."),
) -> None:
    """Evaluate a finished run on its test images: accuracy, top-5 accuracy, accuracy per class and per label group."""
    from semco.evaluation.run import evaluate_run
    from semco.report.tables import evaluation_tables

    evaluation = evaluate_run(run, None if head is None else head.value)
    if as_json:
        typer.echo(json.dumps({"run": str(run), **evaluation.summary()}))
        return
    console = Console()
    for table in evaluation_tables(evaluation):
        console.print(table)
