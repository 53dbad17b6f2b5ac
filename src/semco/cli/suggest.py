"""``semco suggest``: which images to label next."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console


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
    for each in found[:10]:
        console.print(f"{each.worth:.3f}  {each.path or each.position}  {', '.join(each.guesses.values())}")
    console.print(f"page   {folder / PAGE_NAME}")
    console.print(f"table  {folder / CSV_NAME}: fill in the column label, then")
    console.print(f"       semco continue {run} --labels-from {folder / CSV_NAME}")
