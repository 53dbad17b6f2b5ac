"""``semco demo``: SemCo+ beside a supervised baseline on the bundled images, with a page to look at."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer
from rich.console import Console

from semco.cli.display import Display
from semco.cli.running import show_how_to_resume

METHODS = ("supervised", "semco_plus")


def demo(
    out: Path = typer.Option(None, help="Folder of the runs; started again, they resume. Default: below runs/."),
    steps: int = typer.Option(None, min=1, help="Length of each run."),
    seed: int = typer.Option(0, help="Decides which images are labelled."),
) -> None:
    """Train from 4 labels per class on the bundled images, in a minute or two on two cores."""
    from semco.config import configure
    from semco.experiment import train_or_resume
    from semco.report import summary_table, write_report
    from semco.run.folder import free_folder

    console = Console(stderr=True)
    folder = out or free_folder(Path("runs"), "demo")
    console.print("10 kinds of clothes, 4 labelled images of each, 5,460 unlabelled images.", highlight=False)
    length = f" --steps {steps}" if steps else ""
    again = f"semco demo --out {shlex.quote(str(folder))}{length} --seed {seed}"
    runs = []
    for method in METHODS:
        options = {
            "method": {"name": method},
            "training": {"seed": seed} | ({"steps": steps} if steps else {}),
        }
        runs.append(folder / method)
        with show_how_to_resume(again), Display(console, method) as display:
            train_or_resume(configure("demo", options=options), runs[-1], display)
    page = write_report(runs, folder / "report.html", "SemCo demo: 4 labels per class")
    Console().print(summary_table(runs))
    Console(soft_wrap=True).print(f"open {page}", markup=False, highlight=False)
