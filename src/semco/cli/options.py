"""Options of both `semco train` and `semco compare`: what to train on and how."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Data = Annotated[
    str | None, typer.Argument(help="fashion-mini, cifar10, cifar100, an .npz file, or a folder of class folders.")
]
LabelsPerClass = Annotated[int | None, typer.Option(help="Labelled images of each class.")]
Labels = Annotated[int | None, typer.Option(help="Labelled images in all.")]
Classes = Annotated[str | None, typer.Option(help="Only these classes: a,b,c.")]
DataRoot = Annotated[Path | None, typer.Option(help="Where the official files of cifar10 and cifar100 lie.")]
Backbone = Annotated[str | None, typer.Option(help="wrn-DEPTH-WIDTH, resnet18 or resnet50.")]
Steps = Annotated[int | None, typer.Option(help="Length of a run in steps.")]
BatchSize = Annotated[int | None, typer.Option(help="Labelled images a step.")]
Mu = Annotated[int | None, typer.Option(help="Unlabelled images per labelled one.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="dotted.key=value, any field of the configuration.")]


def given(**sections: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Of configuration values by section only those that are not None, and sections that have any."""
    said = {name: {key: value for key, value in each.items() if value is not None} for name, each in sections.items()}
    return {name: each for name, each in said.items() if each}
