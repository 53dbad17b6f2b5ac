"""``semco evaluate``: evaluate a finished run on its test images."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

if TYPE_CHECKING:
    from semco.evaluation.probabilities import Head


class HeadName(StrEnum):
    """The heads that can predict (`semco.evaluation.probabilities.HEADS`), repeated here to avoid importing torch."""

    one_hot = "one_hot"
    semantic = "semantic"
    average = "average"


def evaluate(
    run: Path = typer.Argument(..., help="A finished run folder."),
    head: HeadName = typer.Option(None, help="The head that predicts.", show_default="the head of the run"),
    on: str = typer.Option(
        None, help="Other labelled images: a folder with one folder per class, or any other data that are trained on."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of tables."),
) -> None:
    """Evaluate a finished run on its test images, or on others: accuracy per class and group, and all heads."""
    from semco.evaluation.run import evaluate_heads
    from semco.predict.other_data import evaluate_on
    from semco.report.tables import evaluation_tables, heads_table

    chosen: Head | None = None if head is None else head.value
    if on is None:
        evaluations = evaluate_heads(run, None if chosen is None else (chosen,))
    else:
        other = evaluate_on(run, source=on, head=chosen)
        evaluations = {other.head: other}
    evaluation = next(iter(evaluations.values()))
    if as_json:
        heads = {name: each.numbers() for name, each in evaluations.items()}
        typer.echo(json.dumps({"run": str(run), **evaluation.summary(), "heads": heads}))
        return
    console = Console()
    for table in evaluation_tables(evaluation):
        console.print(table)
    if len(evaluations) > 1:
        console.print(heads_table(evaluations))
