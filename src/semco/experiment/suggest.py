"""Which unlabelled images are most worth labelling.

An image is worth a label if the model is unsure of it, or if its heads disagree. Of the images with the highest worth,
one is taken from each of as many clusters of features as labels are wanted, so that the labels differ from each other;
near duplicates of chosen or labelled images are skipped (Zhdanov 2019, "Diverse mini-batch active learning").

Shapes: U images without a label, K classes, F features, n suggestions.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jinja2 import Environment
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_limits
from torch import Tensor

from semco.data.datasets import Dataset, ProgressCallback
from semco.data.sources import load
from semco.data.split import Split
from semco.errors import UserError
from semco.evaluation.engine import about_of, find_model_folder
from semco.evaluation.model_file import SavedModel, load_model
from semco.evaluation.results import image_batches
from semco.evaluation.samples import encode_image
from semco.files import read_text, write_text
from semco.run.folder import RunFolder
from semco.training.allocator import with_reused_memory

# Candidates per suggestion: the images with the highest worth, among which clusters are made.
CANDIDATES = 10
# Cosine of the features from which two images count as near duplicates.
DUPLICATE = 0.995
CSV_NAME, PAGE_NAME = "suggestions.csv", "suggestions.html"

Floats = NDArray[np.float32]


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
    model = load_model(find_model_folder(run))
    dataset = load(folder.config().data, report)
    split = Split.from_json(read_text(folder.split_file), dataset.train_labels)
    pool = np.setdiff1d(split.unlabelled, split.labelled)
    if not 1 <= count <= len(pool):
        raise UserError(f"{run} has {len(pool):,} images without a label; ask for 1 to {len(pool):,}, not {count:,}.")
    scores, features = _run_network(model, dataset.train_images[torch.from_numpy(pool)])
    _, labelled = _run_network(model, dataset.train_images[torch.from_numpy(split.labelled)])
    worth = worth_of(scores)
    chosen = choose(worth, features, labelled, count)
    return [
        _suggestion(model, dataset, int(pool[i]), float(worth[i]), {h: s[i] for h, s in scores.items()}) for i in chosen
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
    lengths = np.linalg.norm(features, axis=1, keepdims=True).clip(1e-12)
    return {head: np.concatenate([row[0][head] for row in rows]) for head in heads}, features / lengths


def worth_of(scores: dict[str, Floats]) -> NDArray[np.float64]:
    """Return the worth of a label for each image: the mean of uncertainty and disagreement, (U,) from 0 to 1.

    Uncertainty is the entropy of the mean probabilities, divided by log K. Disagreement is the total variation distance
    of the two heads, half the sum of absolute differences. With one head, uncertainty alone counts.
    """
    heads = [each.astype(np.float64) for each in scores.values()]
    mean = np.mean(heads, axis=0)
    entropy = -(mean * np.log(mean.clip(1e-12))).sum(axis=1) / np.log(mean.shape[1])
    if len(heads) == 1:
        return np.asarray(entropy)
    return np.asarray((entropy + np.abs(heads[0] - heads[1]).sum(axis=1) / 2) / 2)


def choose(worth: NDArray[np.float64], features: Floats, labelled: Floats, count: int) -> list[int]:
    """Return ``count`` positions: from each cluster of the candidates the one with the highest worth, in that order.

    ``features`` (U, F) and those of the labelled images have unit length. If near duplicates leave too few, the
    remaining places go to the images with the highest worth.
    """
    order = np.argsort(-worth, kind="stable")
    candidates = order[: max(CANDIDATES * count, 200)]
    with threadpool_limits(1):
        clusters = MiniBatchKMeans(min(count, len(candidates)), random_state=0, n_init=1).fit_predict(
            features[candidates], sample_weight=worth[candidates].clip(1e-6)
        )
    chosen: list[int] = []
    taken: set[int] = set()
    for candidate, cluster in zip(candidates.tolist(), clusters.tolist(), strict=True):
        if cluster not in taken and not _is_near(features[candidate], features[chosen], labelled):
            taken.add(cluster)
            chosen.append(candidate)
    kept = set(chosen)
    rest = (int(i) for i in order if int(i) not in kept)
    for candidate in rest:
        if len(chosen) == count:
            break
        if not _is_near(features[candidate], features[chosen], labelled):
            chosen.append(candidate)
    return sorted(chosen[:count], key=lambda i: -worth[i])


def _is_near(feature: Floats, *others: Floats) -> bool:
    return any(len(each) and float((each @ feature).max()) >= DUPLICATE for each in others)


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
    write_text(folder / PAGE_NAME, _page(suggestions))


def _page(suggestions: list[Suggestion]) -> str:
    environment = Environment(autoescape=True)
    shown = [(each, encode_image(each.image, "png")) for each in suggestions]
    return environment.from_string(PAGE).render(shown=shown)


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Images worth a label</title>
<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 2rem; color-scheme: light dark; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); gap: 1rem; }
figure { margin: 0; } img { width: 100%; aspect-ratio: 1; object-fit: contain; image-rendering: auto; }
figcaption { overflow-wrap: anywhere; } small { color: #888; }
</style>
<h1>Images worth a label</h1>
<p>Fill in the column <code>label</code> of {{ "suggestions.csv" }}, then continue the run with it.</p>
<main>{% for each, image in shown %}
<figure><img src="data:image/png;base64,{{ image }}" alt="">
<figcaption>{{ each.path or each.position }}<br>
<small>{% for head, name in each.guesses.items() %}{{ head }}: {{ name }}<br>{% endfor %}worth
{{ "%.2f" | format(each.worth) }}</small></figcaption></figure>{% endfor %}
</main></html>
"""
