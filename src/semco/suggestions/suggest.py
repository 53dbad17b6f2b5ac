"""Which unlabelled images are most worth labelling: a table to fill in, and a page of thumbnails.

Shapes: U images without a label, K classes, F features.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from semco.data.datasets import Dataset, ProgressCallback
from semco.data.sources import load
from semco.data.split import Split
from semco.errors import UserError
from semco.evaluation.engine import with_engine
from semco.evaluation.model_file import SavedModel, load_model
from semco.evaluation.results import image_batches
from semco.evaluation.samples import encode_image
from semco.files import read_text, write_text
from semco.labels.store import unit_rows
from semco.predict.engine import about_of, find_model_folder
from semco.report.sections import ImageTile, Section, write_sections
from semco.run.folder import RunFolder
from semco.suggestions.select import Floats, cover
from semco.training.allocator import with_reused_memory

CSV_NAME, PAGE_NAME = "suggestions.csv", "suggestions.html"


@dataclass(frozen=True)
class Suggestion:
    """One image that is worth a label, and what the heads take it for."""

    position: int  # in the training set
    path: str
    worth: float  # 0 to 1
    guesses: dict[str, str]  # by head
    confidence: float
    image: Tensor  # (C, H, W) uint8


def suggest(run: Path, count: int, report: ProgressCallback | None = None) -> list[Suggestion]:
    """Return ``count`` unlabelled images of the data of a finished run, those most worth a label first."""
    folder = RunFolder.open(run)
    model = with_engine(load_model(find_model_folder(run)))
    dataset = load(folder.config().data, report)
    split = Split.from_json(read_text(folder.split_file), dataset.train_labels)
    pool = np.setdiff1d(split.unlabelled, split.labelled)
    if not 1 <= count <= len(pool):
        raise UserError(f"{run} has {len(pool):,} images without a label; ask for 1 to {len(pool):,}, not {count:,}.")
    scores, features = _run_network(model, dataset.train_images[torch.from_numpy(pool)])
    _, labelled = _run_network(model, dataset.train_images[torch.from_numpy(split.labelled)])
    chosen = cover(features, labelled, count)
    if not chosen:
        raise UserError(f"every image of {run} without a label is a near duplicate of a labelled one.")
    return [
        _suggestion(model, dataset, int(pool[i]), worth, {head: each[i] for head, each in scores.items()})
        for i, worth in chosen
    ]


@torch.inference_mode()
def _run_network(model: SavedModel, images: Tensor) -> tuple[dict[str, Floats], Floats]:
    """Return the probabilities (U, K) of each head and the features (U, F), with unit length, of images."""
    described = model.description
    heads = about_of(described).heads
    scorers = {head: model.scorer(head) for head in heads}
    outputs = (model.network(batch) for batch in image_batches(images, described.mean, described.std))
    rows = [
        ({head: scorer(each).numpy() for head, scorer in scorers.items()}, each.features.float().numpy())
        for each in with_reused_memory(outputs, torch.device("cpu"))
    ]
    features = np.concatenate([row[1] for row in rows])
    return {head: np.concatenate([row[0][head] for row in rows]) for head in heads}, unit_rows(features)


def _suggestion(
    model: SavedModel, dataset: Dataset, position: int, worth: float, scores: dict[str, Floats]
) -> Suggestion:
    names = model.description.class_names
    path = "" if dataset.train_paths is None else dataset.train_paths[position]
    guesses = {head: names[int(each.argmax())] for head, each in scores.items()}
    confidence = float(next(iter(scores.values())).max())
    return Suggestion(position, path, worth, guesses, confidence, dataset.train_images[position])


def write_suggestions(folder: Path, suggestions: list[Suggestion]) -> None:
    """Write a table, whose empty column ``label`` is to be filled in, and a page of thumbnails."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = list(suggestions[0].guesses)
    writer.writerow(["index", "path", "label", "worth", "confidence", *heads])
    for each in suggestions:
        guesses = [each.guesses[head] for head in heads]
        writer.writerow([each.position, each.path, "", f"{each.worth:.4f}", f"{each.confidence:.4f}", *guesses])
    write_text(folder / CSV_NAME, text.getvalue())
    tiles = tuple(
        ImageTile(f"data:image/png;base64,{encode_image(each.image, 'png')}", _title(each), _note(each))
        for each in suggestions
    )
    how = f"Fill in the column label of {CSV_NAME}, then continue the run with it."
    write_sections(folder / PAGE_NAME, "Images worth a label", how, [Section(f"{len(tiles)} images", images=tiles)])


def _title(each: Suggestion) -> str:
    return Path(each.path).name if each.path else f"image {each.position}"


def _note(each: Suggestion) -> str:
    return ", ".join(f"{head}: {name}" for head, name in each.guesses.items())
