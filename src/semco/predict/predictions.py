"""The answer for one image, and the same as a row of a table.

Shapes: N images, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from semco.data.names import NONE_OF_THESE
from semco.evaluation.thresholds import Threshold
from semco.predict.engine import About, Scores

Cell = str | float | None


@dataclass(frozen=True)
class Prediction:
    """The most probable classes of one image, or the reason why it could not be read."""

    path: str
    label: str | None = None
    confidence: float | None = None
    runner_up: str | None = None
    runner_up_confidence: float | None = None
    group: str | None = None
    """The group of the label: ``shirt + coat``; the label itself if it is in no group."""
    top: tuple[tuple[str, float], ...] = ()
    """The most probable classes with their probabilities, as many as were asked for."""
    heads: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """The most probable class of each head with its probability."""
    familiarity: float | None = None
    """How similar the photo is to those of the classes, from -1 to 1; None if the model has no familiarity."""
    error: str | None = None
    """Why the image could not be read; None if it could."""


def predictions_of(names: Sequence[str], scores: Scores, about: About, top: int = 2) -> list[Prediction]:
    """Return the predictions of images with these names, given their scores; ``top`` classes of each."""
    shown = min(max(2, top), len(about.class_names))
    order = np.argsort(-scores.chosen, axis=1, kind="stable")[:, :shown].tolist()
    best = {head: each.argmax(axis=1).tolist() for head, each in scores.by_head.items()}
    return [
        _prediction(name, about, order[i], scores, i, {head: ids[i] for head, ids in best.items()}, top)
        for i, name in enumerate(names)
    ]


def _prediction(
    name: str, about: About, order: list[int], scores: Scores, row: int, best: Mapping[str, int], top: int
) -> Prediction:
    ranked = [(about.class_names[k], float(scores.chosen[row, k])) for k in order]
    (label, confidence), (runner_up, runner_up_confidence) = ranked[:2]
    return Prediction(
        path=name,
        label=label,
        confidence=confidence,
        runner_up=runner_up,
        runner_up_confidence=runner_up_confidence,
        group=about.groups[order[0]],
        top=tuple(ranked[:top]),
        heads={head: (about.class_names[k], float(scores.by_head[head][row, k])) for head, k in best.items()},
        familiarity=None if scores.familiarity is None else float(scores.familiarity[row]),
    )


def or_none_of_these(prediction: Prediction, threshold: Threshold | None) -> Prediction:
    """Return the answer "none of these" for a photo below the threshold; its most probable class is the runner-up."""
    known = prediction.familiarity
    if threshold is None or known is None or known >= threshold.least:
        return prediction
    return replace(
        prediction,
        label=NONE_OF_THESE,
        confidence=None,
        runner_up=prediction.label,
        runner_up_confidence=prediction.confidence,
        group=NONE_OF_THESE,
    )


def columns(about: About, top: int = 2) -> tuple[str, ...]:
    """Return the names of the columns of a table of predictions with ``top`` classes per image."""
    more = (f"top_{i}" for i in range(3, 1 + min(top, len(about.class_names))))
    heads = about.heads if len(about.heads) > 1 else ()
    pairs = ("label", "runner_up", *more)
    return ("path", *_with_confidence(pairs), "group", *_with_confidence(heads), "error")


def _with_confidence(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        yield name
        yield "confidence" if name == "label" else f"{name}_confidence"


def as_row(prediction: Prediction, about: About, top: int = 2) -> dict[str, Cell]:
    """Return a prediction by column."""
    row: dict[str, Cell] = dict.fromkeys(columns(about, top))
    row |= {"path": prediction.path, "error": prediction.error, "group": prediction.group}
    row |= {"label": prediction.label, "confidence": prediction.confidence}
    row |= {"runner_up": prediction.runner_up, "runner_up_confidence": prediction.runner_up_confidence}
    for place, (name, confidence) in enumerate(prediction.top[2:], start=3):
        row |= {f"top_{place}": name, f"top_{place}_confidence": confidence}
    if len(about.heads) > 1:
        for head, (name, confidence) in prediction.heads.items():
            row |= {head: name, f"{head}_confidence": confidence}
    return row
