"""``semco report``: one page about one run or several."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console


def report(
    runs: list[Path] = typer.Argument(..., help="Run folders, finished or not."),
    out: Path = typer.Option(None, help="The HTML file; report.html in the first run if not given."),
    title: str = typer.Option(None, help="The heading of the page."),
) -> None:
    """Write a page with curves, label groups, pseudo-labels, mistakes and samples; compare several runs."""
    from semco.report import summary_table, write_report

    runs = list(dict.fromkeys(runs))  # a run counts once
    page = write_report(runs, out or runs[0] / "report.html", title)
    Console().print(summary_table(runs))
    Console(soft_wrap=True).print(f"open {page}", markup=False, highlight=False)
