"""``semco report``: write one page about one or more runs."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console


def report(
    runs: list[Path] = typer.Argument(..., help="Run folders, finished or not."),
    out: Path = typer.Option(None, help="The HTML file.", show_default="report.html in the first run folder"),
    title: str = typer.Option(None, help="The heading of the page."),
) -> None:
    """Write a page with training curves, label groups, pseudo-labels and mistakes; several runs are compared."""
    from semco.report import summary_table, write_report

    runs = list(dict.fromkeys(runs))  # each run once
    page = write_report(runs, out or runs[0] / "report.html", title)
    Console().print(summary_table(runs))
    Console(soft_wrap=True).print(f"open {page}", markup=False, highlight=False)
