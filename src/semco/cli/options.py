"""Options of both `semco train` and `semco compare`: what to train on and how."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from semco.errors import UserError

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
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="dotted.key=value, any field that `semco settings` lists.")
]


# The field of the configuration that an option stands for.
FIELDS = {
    "data": "data.source",
    "labels_per_class": "data.labels_per_class",
    "labels": "data.labels",
    "classes": "data.classes",
    "data_root": "data.root",
    "strict": "data.strict",
    "method": "method.name",
    "backbone": "model.backbone",
    "steps": "training.steps",
    "epochs": "training.epochs",
    "batch_size": "training.batch_size",
    "mu": "training.mu",
    "seed": "training.seed",
}


def require_data(data: str | None, others: bool, settings: Sequence[str]) -> None:
    """What to train on must be said: by the argument, or by whatever else can (``others``, a setting)."""
    from semco.config import assignment, flat_fields

    if data is None and not others and not any("data.source" in flat_fields(assignment(each)) for each in settings):
        raise UserError(
            "say what to train on: a folder with a folder of images a class, an .npz file, or fashion-mini, which is "
            "bundled; 'semco demo' is a first look."
        )


def given(classes: str | None, **options: Any) -> dict[str, dict[str, Any]]:
    """Configuration values by section, of those options that are not None; ``classes`` are a,b,c."""
    options |= {"classes": classes.split(",") if classes else None}
    values: dict[str, dict[str, Any]] = {}
    for name, value in options.items():
        if value is not None:
            section, _, field = FIELDS[name].partition(".")
            values.setdefault(section, {})[field] = value
    return values
