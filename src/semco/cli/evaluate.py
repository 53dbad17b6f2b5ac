"""``semco evaluate``: evaluate a finished run on its test images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import typer
from rich.console import Console

# `semco.evaluation.probabilities.Head`, repeated here to avoid importing torch.
HeadName = Literal["one_hot", "semantic", "average"]


def evaluate(
    run: Path = typer.Argument(..., help="A finished run folder."),
    head: HeadName | None = typer.Option(None, help="The head that predicts.", show_default="the head of the run"),
    on: str = typer.Option(
        None, help="Other labelled images: a folder with one folder per class, or any other data that are trained on."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of tables."),
) -> None:
    """Evaluate a finished run on its test images, or on others: accuracy per class and group, and all heads."""
    from semco.evaluation.run import evaluate_heads
    from semco.predict.other_data import evaluate_on
    from semco.report.tables import evaluation_tables, heads_table

    if on is None:
        evaluations = evaluate_heads(run, None if head is None else (head,))
    else:
        other = evaluate_on(run, source=on, head=head)
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
