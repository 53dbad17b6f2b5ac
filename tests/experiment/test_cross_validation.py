"""The comparison with the linear probe, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from semco.config import Config, ModelConfig
from semco.experiment.cross_validation import Comparison, fold_positions, number_of_folds


def compare(both: int, only_probe: int, only_trained: int, neither: int) -> Comparison:
    counts = [both, only_probe, only_trained, neither]
    return Comparison(
        trained=np.repeat([True, False, True, False], counts), probe=np.repeat([True, True, False, False], counts)
    )


def test_accuracies() -> None:
    comparison = compare(both=5, only_probe=2, only_trained=1, neither=2)
    assert comparison.probe_accuracy == pytest.approx(0.7)
    assert comparison.trained_accuracy == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("only_probe", "only_trained", "is_better"),
    [
        (0, 0, False),
        (1, 0, False),  # 1 is not above sqrt(1)
        (2, 0, True),  # 2 > 1.41
        (6, 3, False),  # 3 is not above sqrt(9)
        (7, 3, True),  # 4 > 3.16
        (3, 7, False),
    ],
)
def test_the_probe_is_better_only_by_more_than_chance(only_probe: int, only_trained: int, is_better: bool) -> None:
    assert compare(10, only_probe, only_trained, 4).is_probe_better() is is_better


@pytest.mark.parametrize(
    ("tune", "labels_per_class", "folds"),
    [("heads", 3, 3), ("heads", 2, 0), ("top", 2, 2), ("top", 1, 0), ("all", 50, 0)],
)
def test_number_of_folds(tune: str, labels_per_class: int, folds: int) -> None:
    class_ids = np.array([0] * 10 + [1] * labels_per_class)
    config = Config(model=ModelConfig(tune=tune))
    assert number_of_folds(config, class_ids) == folds


def test_each_label_is_held_out_once_and_classes_are_divided_evenly() -> None:
    class_ids = np.array([0, 1, 2] * 4 + [0] * 2)
    parts = fold_positions(class_ids, 2, seed=2**40)
    assert sorted(np.concatenate(parts)) == list(range(14))
    assert [np.bincount(class_ids[part]).tolist() for part in parts] == [[3, 2, 2], [3, 2, 2]]
    again, other = fold_positions(class_ids, 2, seed=2**40), fold_positions(class_ids, 2, seed=1)
    assert all(np.array_equal(one, two) for one, two in zip(parts, again, strict=True))
    assert not all(np.array_equal(one, two) for one, two in zip(parts, other, strict=True))
