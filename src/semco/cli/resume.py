"""``semco resume``: go on with a run."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from semco.cli.display import Display
from semco.cli.running import saying_how_to_resume, show_result


def resume(
    run: Path = typer.Argument(..., help="The run folder."),
    as_json: bool = typer.Option(False, "--json", help="End with one JSON object."),
) -> None:
    """Go on with an interrupted run as if it had never stopped; a finished one shows its result."""
    from semco.experiment import resume as go_on

    with saying_how_to_resume(run), Display(Console(stderr=True), run.name) as display:
        result = go_on(run, display)
    show_result(result, as_json=as_json)
