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
from numpy.typing import NDArray
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
from semco.training.allocator import with_reused_memory

# Most candidates, and most images that should be close to a labelled one: each candidate is compared with all.
MOST_CANDIDATES, MOST_POINTS = 5_000, 2_000
# Cosine of the features from which two images count as near duplicates.
DUPLICATE = 0.995

Floats = NDArray[np.float32]


def cover(features: Floats, labelled: Floats, count: int) -> list[tuple[int, float]]:
    """Return up to ``count`` positions with the worth of a label for each (0 to 1), most useful first.

    Images are chosen one after the other, each so that all images come as close as possible to a labelled one.
    ``features`` (U, F) and those of the labelled images (L, F) have unit length. The closeness of two images is the
    cosine of their features. The worth is the fraction of the initial distances to the closest labelled image
    that the label removes. Large pools are represented by a random sample.
    """
    rng = np.random.default_rng(0)
    candidates, points = (_sample(len(features), most, rng) for most in (max(MOST_CANDIDATES, count), MOST_POINTS))
    closeness = features[candidates] @ features[points].T
    closest = (features[points] @ labelled.T).max(axis=1, initial=-1.0)
    distance = max(float((1 - closest).sum()), 1e-12)
    gains = (closeness - closest).clip(0).sum(axis=1)
    gains[(features[candidates] @ labelled.T >= DUPLICATE).any(axis=1)] = -1
    chosen: list[tuple[int, float]] = []
    for _ in range(min(count, len(candidates))):
        best = _largest_gain(gains, closeness, closest)
        if gains[best] < 0:
            break  # what is left are near duplicates
        chosen.append((int(candidates[best]), float(gains[best]) / distance))
        closest = np.maximum(closest, closeness[best])
        gains[features[candidates] @ features[candidates[best]] >= DUPLICATE] = -1
    return chosen


def _largest_gain(gains: Floats, closeness: Floats, closest: Floats) -> int:
    """Return the candidate with the largest gain, and bring the gains that were compared up to date.

    Gains only fall as images are chosen, so that older ones are upper bounds (Minoux 1978, "Accelerated greedy
    algorithms"): only those that could still be the largest are computed again.
    """
    is_new = gains < 0
    while not is_new[best := int(gains.argmax())]:
        gains[best] = (closeness[best] - closest).clip(0).sum()
        is_new[best] = True
    return best


def _sample(size: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.arange(size) if size <= most else np.sort(rng.choice(size, most, replace=False))


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
