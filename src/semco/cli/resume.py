"""``semco resume``: go on with a run."""

from __future__ import annotations

from pathlib import Path

import typer

from semco.cli.display import Display
from semco.cli.running import messages, run_in_processes, saying_how_to_resume, show_result


def resume(
    run: Path = typer.Argument(..., help="The run folder."),
    processes: int = typer.Option(1, min=1, help="Train in so many processes (torchrun)."),
    as_json: bool = typer.Option(False, "--json", help="End with one JSON object."),
) -> None:
    """Go on with an interrupted run as if it had never stopped; a finished one shows its result."""
    if processes > 1:
        run_in_processes(processes, resume_here, run, as_json)
    else:
        resume_here(run, as_json)


def resume_here(run: Path, as_json: bool) -> None:
    """Go on in this process, alone or as one of several."""
    from semco.experiment import resume as go_on

    with saying_how_to_resume(), Display(messages(), run.name) as display:
        result = go_on(run, display)
    show_result(result, as_json=as_json)
