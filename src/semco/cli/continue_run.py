"""``semco continue``: train on with more labels."""

from __future__ import annotations

from pathlib import Path

import typer

from semco.cli.display import Display
from semco.cli.running import show_how_to_resume, show_result, status_console


def continue_run(
    run: Path = typer.Argument(..., help="A finished run folder."),
    labels_from: Path = typer.Option(..., help="A table with the columns path (or index) and label."),
    out: Path = typer.Option(None, help="The new run folder.", show_default="RUN-continued-N"),
    steps: int = typer.Option(None, min=1, help="Length of the new run.", show_default="that of the run"),
    as_json: bool = typer.Option(False, "--json", help="End with one JSON object."),
) -> None:
    """Train on from the EMA weights of a run with additional labels, as a new run that names its parent."""
    from semco.experiment.continuation import continue_run as train_on

    with show_how_to_resume(), Display(status_console(), "continue") as display:
        result = train_on(run, labels_from, out, display, steps)
    show_result(result, as_json=as_json)
