"""``semco demo``: SemCo beside a supervised baseline on the bundled images, with a page to look at."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from semco.cli.display import Display
from semco.cli.running import saying_how_to_resume

METHODS = ("supervised", "semco")


def demo(
    out: Path = typer.Option(None, help="Where to put the runs; a new folder below runs/ if not given."),
    steps: int = typer.Option(None, min=1, help="Length of each run."),
    seed: int = typer.Option(0, help="Decides which images are labelled."),
) -> None:
    """Train from 4 labels a class on the bundled images, in a minute or two on two cores."""
    from semco.experiment import train
    from semco.recipes import configure
    from semco.report import summary_table, write_report
    from semco.training.run_folder import free_folder

    console = Console(stderr=True)
    folder = out or free_folder(Path("runs"), "demo")
    console.print("10 kinds of clothes, 4 labelled images of each, 5,460 without a label.", highlight=False)
    runs = []
    for method in METHODS:
        options = {
            "method": {"name": method},
            "training": {"seed": seed} | ({"steps": steps} if steps else {}),
        }
        runs.append(folder / method)
        with saying_how_to_resume(), Display(console, method) as display:
            train(configure("demo", options=options), runs[-1], display)
    page = write_report(runs, folder / "report.html", "SemCo demo: 4 labels a class")
    Console().print(summary_table(runs))
    Console(soft_wrap=True).print(f"open {page}", markup=False, highlight=False)
