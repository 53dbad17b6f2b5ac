"""``semco resume``: continue an interrupted run."""

from __future__ import annotations

from pathlib import Path

import typer

from semco.cli.display import Display
from semco.cli.running import STARTED, importing, run_in_processes, show_how_to_resume, show_result, status_console


def resume(
    run: Path = typer.Argument(..., help="The run folder."),
    processes: int = typer.Option(1, min=1, help="Number of processes (torchrun)."),
    as_json: bool = typer.Option(False, "--json", help="End with one JSON object."),
) -> None:
    """Resume an interrupted run as if it had never stopped; a finished one shows its result."""
    if processes > 1:
        run_in_processes(processes, resume_here, run, as_json)
    else:
        resume_here(run, as_json)


def resume_here(run: Path, as_json: bool) -> None:
    """Resume in this process, alone or as one of several."""
    with importing():
        from semco.experiment import resume as resume_run

    with show_how_to_resume(run=run), Display(status_console(), run.name) as display:
        result = resume_run(run, display, STARTED)
    show_result(result, as_json=as_json)
