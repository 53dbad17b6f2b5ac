"""``semco watch``: follow a run that trains elsewhere."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from semco.cli.display import Display
from semco.cli.running import show_result


def watch(
    run: Path = typer.Argument(..., help="The folder of a run that is being trained."),
    seconds: float = typer.Option(1.0, min=0.1, help="Time between two looks."),
) -> None:
    """Show a run live that another process, or another machine with the same disk, is training."""
    from semco.experiment.watch import watch as follow

    with Display(Console(stderr=True, soft_wrap=True), run.name) as display:
        folder = follow(run, display, seconds)
    show_result(folder.result(), as_json=False)
