"""Commands that take a run further: ``semco resume``, ``suggest`` and ``continue``."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

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


def suggest(
    run: Path = typer.Argument(..., help="A finished run folder."),
    count: int = typer.Option(50, "--n", help="Number of images."),
    out: Path = typer.Option(None, help="Folder for the table and the page.", show_default="RUN/suggestions"),
) -> None:
    """Name the unlabelled images most worth a label: like many others, and unlike the labelled ones."""
    from semco.suggestions.suggest import CSV_NAME, PAGE_NAME, write_suggestions
    from semco.suggestions.suggest import suggest as find

    folder = out or run / "suggestions"
    found = find(run, count)
    write_suggestions(folder, found)
    console = Console(soft_wrap=True, markup=False, highlight=False)
    console.print("worth  photo, and what the model says")
    for each in found[:10]:
        console.print(f"{each.worth:.3f}  {each.path or each.position}  {', '.join(each.guesses.values())}")
    console.print(f"page   {folder / PAGE_NAME}")
    console.print(f"table  {folder / CSV_NAME}: fill in the column label, then")
    console.print(f"       semco continue {run} --labels-from {folder / CSV_NAME}")


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
