"""The answers of a model for photos without a label, and how often they were right.

The answers of a finished round are read from the run's ``pseudo_labels.parquet``. A check of the model is a random
photo that a person labelled without seeing its answer. Confirmed answers are not counted: a person who sees an
answer, or many at once, overlooks wrong ones.

Shapes: U photos that had no label when the round was trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from semco.errors import UserError
from semco.run.accuracy import Accuracy, percent, wilson_interval
from semco.run.folder import RunFolder
from semco.run.result import ProbeResult
from semco.studio.photos import Photos


def shown_accuracy(accuracy: Accuracy | None, probe: ProbeResult | None) -> dict[str, Any] | None:
    """Return plain values; None if there were no photos to measure it on."""
    if accuracy is None:
        return None
    beside = ""
    if probe is not None and probe.is_kept:
        beside = "the model is the linear probe, which was better where labels were held out"
    elif probe is not None and probe.accuracy is not None and probe.difference is not None:
        beside = f"a linear probe: {percent(probe.accuracy.value)} ({probe.difference.describe()})"
    return {
        "value": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
        "right": accuracy.right,
        "total": accuracy.total,
        "photos": accuracy.photos,
        "probe": beside,
    }


SURE = 0.9  # confidence from which an answer counts as sure
HEADS = ("one_hot", "semantic")


@dataclass(frozen=True)
class Answers:
    """The answers of one round. The class of an answer is its number in the project, -1 if it was removed."""

    numbers: NDArray[np.int64]  # (U,) of the photos
    guesses: NDArray[np.int64]  # (U,) of the head that is more confident
    confidence: NDArray[np.float64]  # (U,) its confidence
    disagree: NDArray[np.bool_]  # (U,) whether the two heads give different classes
    others: NDArray[np.int64]  # (U,) the class of the other head
    places: NDArray[np.int64]  # (U,) among the photos that are most worth a label, 1 the first, 0 the rest
    has_two_heads: bool = False

    def __len__(self) -> int:
        return len(self.numbers)

    def most_useful(self) -> NDArray[np.int64]:
        """Return the rows, most useful first: those the run suggests, then where the model is unsure or disagrees."""
        doubt = (1 - self.confidence) + self.disagree
        place = np.where(self.places > 0, self.places, len(self) + 1)
        return np.lexsort((-doubt, place))


def read_answers(run: RunFolder, photos: Photos, names: Mapping[int, str]) -> Answers:
    """Return the answers of a finished run for the photos that are still there."""
    try:
        table = pq.read_table(run.pseudo_labels_file)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{run.pseudo_labels_file} cannot be read ({error}); train again.") from None
    paths = table["path_bytes" if "path_bytes" in table.column_names else "path"].to_pylist()
    found = [photos.number(_relative(path, photos.root)) for path in paths]
    kept = np.asarray([i for i, number in enumerate(found) if number is not None], dtype=np.int64)
    by_name = {name: number for number, name in names.items()}
    classes, confidence = [], []
    for head in (head for head in HEADS if f"name_{head}" in table.column_names):
        column = table[f"name_{head}"].combine_chunks()
        ids = np.asarray([by_name.get(name, -1) for name in column.dictionary.to_pylist()], dtype=np.int64)
        classes.append(ids[column.indices.to_numpy()][kept])
        confidence.append(table[f"confidence_{head}"].to_numpy()[kept].astype(np.float64))
    numbers = np.asarray([found[i] for i in kept], dtype=np.int64)
    return _combine(numbers, classes, confidence, _places(table)[kept])


def _places(table: pa.Table) -> NDArray[np.int64]:
    """Return the places of the photos that the run suggests, 0 for the others."""
    return np.asarray(table["suggested"].fill_null(0).to_numpy(), dtype=np.int64)


def _relative(path: str | bytes, root: Path) -> str:
    name = path.decode(errors="surrogateescape") if isinstance(path, bytes) else path
    return name.removeprefix(f"{root}/")


def _combine(
    numbers: NDArray[np.int64],
    classes: list[NDArray[np.int64]],
    confidence: list[NDArray[np.float64]],
    places: NDArray[np.int64],
) -> Answers:
    """Return the answer of the more confident head for each photo."""
    if len(classes) == 1:
        no_disagreement = np.zeros(len(numbers), dtype=np.bool_)
        return Answers(numbers, classes[0], confidence[0], no_disagreement, classes[0], places)
    second_is_better = confidence[1] > confidence[0]
    return Answers(
        numbers,
        np.where(second_is_better, classes[1], classes[0]),
        np.maximum(*confidence),
        classes[0] != classes[1],
        np.where(second_is_better, classes[0], classes[1]),
        places,
        has_two_heads=True,
    )


def summarise(answers: Answers, labels: Mapping[int, int], groups: list[list[int]]) -> dict[str, Any]:
    """Return the numbers of the review page, also per group and per pair.

    ``labels`` are the present labels by photo; ``groups`` the class numbers of each group.
    """
    labelled = np.isin(answers.numbers, np.fromiter(labels, dtype=np.int64, count=len(labels)))
    is_open = ~labelled
    return {
        "photos": len(answers),
        "open": int(is_open.sum()),
        "sure": int((is_open & (answers.confidence >= SURE) & ~answers.disagree).sum()),
        "disagree": int((is_open & answers.disagree).sum()),
        "groups": [_group(answers, is_open, members) for members in groups],
        "pairs": _pairs(answers, is_open, groups),
        "has_two_heads": answers.has_two_heads,
    }


def _group(answers: Answers, is_open: NDArray[np.bool_], members: list[int]) -> dict[str, Any]:
    inside = is_open & np.isin(answers.guesses, members)
    return {
        "classes": members,
        "open": int(inside.sum()),
        "sure": int((inside & (answers.confidence >= SURE) & ~answers.disagree).sum()),
        "disagree": int((inside & answers.disagree).sum()),
    }


def _pairs(answers: Answers, is_open: NDArray[np.bool_], groups: list[list[int]]) -> list[dict[str, Any]]:
    """Return the pairs of grouped classes and those between which the heads disagree, the most frequent first."""
    rows = np.flatnonzero(is_open & answers.disagree & (answers.guesses >= 0) & (answers.others >= 0))
    low = np.minimum(answers.guesses[rows], answers.others[rows])
    high = np.maximum(answers.guesses[rows], answers.others[rows])
    pairs, counts = np.unique(np.stack([low, high]), axis=1, return_counts=True)
    alike = {pair for members in groups for pair in combinations(sorted(members), 2)}
    found = dict.fromkeys(alike, 0)
    found |= {(int(a), int(b)): int(count) for (a, b), count in zip(pairs.T, counts, strict=True)}
    order = sorted(found, key=lambda pair: (-found[pair], pair))
    return [{"classes": list(pair), "count": found[pair], "alike": pair in alike} for pair in order]


def check(predicted: Mapping[int, int], labels: Mapping[int, int]) -> dict[str, Any]:
    """Return the accuracy on photos that were labelled blind, with a 95 % interval, and the same per class.

    ``predicted`` has the model's class of each of these photos, ``labels`` the class that a person gave.
    """
    pairs = [(guess, labels[photo]) for photo, guess in predicted.items() if photo in labels]
    classes = {label: [0, 0] for _, label in pairs}
    for guess, label in pairs:
        classes[label][0] += guess == label
        classes[label][1] += 1
    right = sum(guess == label for guess, label in pairs)
    low, high = wilson_interval(right, len(pairs)) if pairs else (0.0, 1.0)
    return {"right": right, "count": len(pairs), "low": low, "high": high, "classes": classes}
