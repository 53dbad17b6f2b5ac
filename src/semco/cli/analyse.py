"""``semco analyse``: what pseudo-labelling did in one or more runs."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console


def analyse(
    runs: list[Path] = typer.Argument(..., help="Run folders, finished or not; several are compared."),
    out: Path = typer.Option(
        None, help="The HTML file, or a folder for analysis.html.", show_default="analysis.html in the first run folder"
    ),
    figures: Path = typer.Option(None, help="Also write every figure as PNG, PDF and SVG into this folder."),
) -> None:
    """Show what pseudo-labelling did: look-alike against distinct classes, disagreement, confused images."""
    from semco.report.analysis.sections import analysis_sections
    from semco.report.sections import save_figures, write_sections

    runs = list(dict.fromkeys(runs))
    sections = analysis_sections(runs)
    verdict = "Figures 2 and 4 of the paper and those of its supplement, drawn from these runs."
    page = write_sections(page_file(out or runs[0]), "What pseudo-labelling did", verdict, sections)
    console = Console(soft_wrap=True)
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        console.print(f"{len(save_figures(sections, figures))} files in {figures}", markup=False, highlight=False)
    console.print(f"open {page}", markup=False, highlight=False)


def page_file(out: Path) -> Path:
    """Return the file of the page: ``out`` itself, or analysis.html in it if it is not called .html."""
    if out.suffix.lower() in (".html", ".htm"):
        return out
    out.mkdir(parents=True, exist_ok=True)
    return out / "analysis.html"
