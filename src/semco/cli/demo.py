"""``semco demo``: SemCo beside a supervised baseline on the bundled images, with a page to look at."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer
from rich.console import Console

from semco.cli.display import Display
from semco.cli.running import saying_how_to_resume

METHODS = ("supervised", "semco")


def demo(
    out: Path = typer.Option(None, help="Where the runs go; started again there, it goes on. Default: below runs/."),
    steps: int = typer.Option(None, min=1, help="Length of each run."),
    seed: int = typer.Option(0, help="Decides which images are labelled."),
) -> None:
    """Train from 4 labels a class on the bundled images, in a minute or two on two cores."""
    from semco.experiment import begin_or_go_on
    from semco.recipes import configure
    from semco.report import summary_table, write_report
    from semco.training.run_folder import free_folder

    console = Console(stderr=True)
    folder = out or free_folder(Path("runs"), "demo")
    console.print("10 kinds of clothes, 4 labelled images of each, 5,460 without a label.", highlight=False)
    length = f" --steps {steps}" if steps else ""
    again = f"semco demo --out {shlex.quote(str(folder))}{length} --seed {seed}"
    runs = []
    for method in METHODS:
        options = {
            "method": {"name": method},
            "training": {"seed": seed} | ({"steps": steps} if steps else {}),
        }
        runs.append(folder / method)
        with saying_how_to_resume(again), Display(console, method) as display:
            begin_or_go_on(configure("demo", options=options), runs[-1], display)
    page = write_report(runs, folder / "report.html", "SemCo demo: 4 labels a class")
    Console().print(summary_table(runs))
    Console(soft_wrap=True).print(f"open {page}", markup=False, highlight=False)
