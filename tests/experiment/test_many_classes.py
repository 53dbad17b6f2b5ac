"""Runs with very many classes: from data to report, and few lines on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semco.config import Config, merge
from semco.experiment import train
from semco.experiment.problem import report_notes
from semco.run.folder import RunFolder
from semco.training.observer import NullObserver
from tests.conftest import tiny_images


class Messages(NullObserver):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_message(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture(params=[pytest.param(10_000, marks=pytest.mark.slow), 300])
def num_classes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_from_data_to_report(num_classes: int, tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """Two images per class with labels, one without, and label vectors of one's own."""
    images = np.resize(tiny_images(20, seed=0)[0], (3 * num_classes, 8, 8))
    labels = np.arange(len(images)) % num_classes
    names = np.array([f"kind {number}" for number in range(num_classes)])
    last = slice(len(images) - 50, None)
    np.savez(
        tmp_path / "many.npz",
        x_train=images, y_train=labels, x_test=images[last], y_test=labels[last], class_names=names,
    )  # fmt: skip
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).normal(size=(num_classes, 64)).astype(np.float32))
    data = {"source": str(tmp_path / "many.npz"), "labels_per_class": 2}
    changes = {"data": data, "labels": {"path": str(tmp_path / "vectors.npy")}, "training": {"steps": 1}}
    observer = Messages()
    result = train(Config.parse(merge(tiny_values, changes)), tmp_path / "run", observer=observer)
    assert (result.num_labels, result.test_images) == (2 * num_classes, 50)
    assert RunFolder(tmp_path / "run").report_file.stat().st_size < 20_000_000
    assert len(observer.lines) < 20


def test_notes_on_class_names_are_few() -> None:
    observer = Messages()
    report_notes([f"note {number}" for number in range(30)], observer)
    last = "10 more notes on class names: `semco labels groups` prints all of them"
    assert observer.lines == [*(f"note {number}" for number in range(20)), last]
    observer.lines.clear()
    report_notes(["one", "two"], observer)
    assert observer.lines == ["one", "two"]
