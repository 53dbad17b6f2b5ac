"""Continue a finished run with additional labels, as a new run that starts from its EMA weights."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from semco.config import Config, ModelConfig
from semco.data.datasets import Dataset, find_class
from semco.data.sources import load
from semco.data.sources.rows import ROLES
from semco.data.split import Split
from semco.errors import UserError, brief
from semco.evaluation.model_file import WEIGHTS
from semco.experiment.runs import train
from semco.files import expand_home, open_regular, read_text, write_json, write_text
from semco.models import has_weights
from semco.run.folder import RunFolder, check_free, free_folder
from semco.run.result import RunResult
from semco.training.observer import Observer

PARENT_FILE = "parent.json"


def continue_run(
    parent: Path, labels: Path, out: Path | None = None, observer: Observer | None = None, steps: int | None = None
) -> RunResult:
    """Train on from the EMA weights of ``parent`` with the labels of a table in addition to its own.

    The table has the columns path (or index, for data without files) and label; rows without a label are left out. All
    labels that the new run learns from are written beside its folder, and ``parent.json`` names the parent.
    """
    folder = RunFolder.open(parent)
    out = out or free_folder(parent.parent, f"{parent.name}-continued")
    check_free(out)
    config, request = folder.config(), folder.request()
    dataset = load(config.data)
    split = Split.from_json(read_text(folder.split_file), dataset.train_labels)
    added = read_labels(labels, dataset, expand_home(config.data.root or Path(config.data.source)))
    data = _data_fields(dataset, split, added, out)
    length = {"steps": steps or config.training.steps, "epochs": None, "minutes": None}
    changes = {
        "data": request.data.model_copy(update={"image_size": config.data.image_size, **data}),
        "model": model_of_parent(folder, request),
        "method": config.method,
        "training": request.training.model_copy(update=length),
    }
    result = train(Config.parse(request.model_copy(update=changes).model_dump()), out, observer)
    write_json(out / PARENT_FILE, {"parent": str(parent), "added_labels": len(added), "labels_from": str(labels)})
    return result


def model_of_parent(parent: RunFolder, config: Config) -> ModelConfig:
    """Return the model of a run that starts from the EMA weights of another one."""
    model: dict[str, object] = {"weights": (parent.model / WEIGHTS).absolute(), "heads_init": "probe"}
    if not has_weights(config.model):  # all layers are trained on, as in the parent
        model |= {"tune": "all", "freeze_norm": False}
    return config.model.model_copy(update=model)


def read_labels(file: Path, dataset: Dataset, root: Path) -> dict[int, int]:
    """Return the class id of each training image that a table labels, by its position.

    Paths are relative to ``root``, the folder of the images, or to the table. Rows of another split are left out.
    """
    positions = {os.path.abspath(path): i for i, path in enumerate(dataset.train_paths or ())}  # noqa: PTH100
    found: dict[int, int] = {}
    with io.TextIOWrapper(open_regular(file), "utf-8-sig", "surrogateescape", newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream), start=2):
            label, path, index, part = ((row.get(name) or "").strip() for name in ("label", "path", "index", "split"))
            if not label or ROLES.get(part.lower(), "train") != "train":
                continue
            position = _find(positions, path, (root, file.parent)) if path else _number(index, dataset)
            if position is None:
                missing = brief(path or index)
                raise UserError(f"{file}, line {number}: there is no training image {missing}; correct the row.")
            found[position] = find_class(dataset.class_names, label, f"class in {file}, line {number}:")
    if not found:
        raise UserError(f"{file} has no row with a label; fill in its column label.")
    return found


def _find(positions: Mapping[str, int], path: str, folders: Sequence[Path]) -> int | None:
    """Return the position of an image whose path is relative to one of the folders, or to the current one."""
    places = (os.path.abspath(folder / path) for folder in (*folders, Path()))  # noqa: PTH100
    return next((positions[place] for place in places if place in positions), None)


def _number(index: str, dataset: Dataset) -> int | None:
    return int(index) if index.isdecimal() and int(index) < len(dataset.train_labels) else None


def _data_fields(dataset: Dataset, split: Split, added: Mapping[int, int], out: Path) -> dict[str, object]:
    """Return the fields of the data of the new run, whose labels are written beside its folder."""
    plain: dict[str, object] = {"labels_per_class": None, "num_labels": None, "imbalance": 1.0}
    labelled = sorted({*split.labelled.tolist(), *added})
    known = dataset.train_labels.numpy()
    if dataset.train_paths is None or all(known[i] == label for i, label in added.items()):
        _check_agreement(known, added)
        file = out.parent / f"{out.name}.labelled.txt"
        write_text(file, "".join(f"{position}\n" for position in labelled))
        return plain | {"labelled_from": file.absolute()}
    file = out.parent / f"{out.name}.labels.csv"
    write_text(file, _table(dataset, labelled, added))
    return plain | {"labels_from": file.absolute(), "labelled_from": None}


def _check_agreement(known: np.ndarray, added: Mapping[int, int]) -> None:
    """Refuse labels that differ from those of a data set without files, whose labels cannot be changed."""
    wrong = [position for position, label in added.items() if known[position] != label]
    if wrong:
        raise UserError(
            f"image {wrong[0]} has another label, or none, in the data set, which a table cannot change: add the label "
            "to the data set itself."
        )


def _table(dataset: Dataset, labelled: list[int], added: Mapping[int, int]) -> str:
    """Return a table of all labelled training images, of the test images, and of those the data hold out."""
    assert dataset.train_paths is not None
    names, text = dataset.class_names, io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", "label", "split"])
    for position in labelled:
        label = added.get(position, int(dataset.train_labels[position]))
        writer.writerow([Path(dataset.train_paths[position]).absolute(), names[label], "train"])
    held_out = [] if dataset.held_out is None else np.flatnonzero(dataset.held_out.numpy()).tolist()
    for position in sorted(set(held_out) - set(labelled)):
        label = int(dataset.train_labels[position])
        writer.writerow([Path(dataset.train_paths[position]).absolute(), names[label], "val"])
    test_labels = [] if dataset.test_labels is None else dataset.test_labels.tolist()
    for path, label in zip(dataset.test_paths or (), test_labels, strict=False):
        writer.writerow([Path(path).absolute(), names[label], "test"])
    return text.getvalue()
