"""Labels that are held out, and what becomes of the predictions for them, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from semco.experiment.cross_validation import Measured, fold_positions


def measure(both: int, only_probe: int, only_model: int, neither: int) -> Measured:
    counts = [both, only_probe, only_model, neither]
    model, probe = np.repeat([True, False, True, False], counts), np.repeat([True, True, False, False], counts)
    return Measured("cross_validation", model, probe)


def test_accuracies_stand_side_by_side() -> None:
    measured = measure(both=5, only_probe=2, only_model=1, neither=2)
    assert measured.accuracy is not None
    assert (measured.accuracy.right, measured.accuracy.total) == (6, 10)
    beside = measured.probe_result(is_kept=False)
    assert beside is not None
    assert beside.accuracy is not None
    assert (beside.accuracy.right, beside.accuracy.kind) == (7, "cross_validation")
    assert beside.difference is not None
    assert beside.difference.value == pytest.approx(-0.1)
    assert measured.keep_probe().accuracy == beside.accuracy
    alone = Measured("test", np.ones(3, dtype=bool))
    assert (alone.difference, alone.probe_result(is_kept=False), alone.is_probe_better()) == (None, None, False)


@pytest.mark.parametrize(
    ("only_probe", "only_model", "is_better"),
    # The interval of 2 more of 14 + 5 + 3 is 2 +- 1.96 sqrt(9 - 4 / 24) of 24, which includes 0.
    [(0, 0, False), (5, 3, False), (7, 3, False), (9, 1, True), (1, 9, False)],
)
def test_the_probe_is_better_only_beyond_the_interval(only_probe: int, only_model: int, is_better: bool) -> None:
    assert measure(10, only_probe, only_model, 4).is_probe_better() is is_better


def test_each_label_is_held_out_once_and_classes_are_divided_evenly() -> None:
    class_ids = np.array([0, 1, 2] * 4 + [0] * 2)
    parts = fold_positions(class_ids, 2, seed=2**40)
    assert sorted(np.concatenate(parts)) == list(range(14))
    assert [np.bincount(class_ids[part]).tolist() for part in parts] == [[3, 2, 2], [3, 2, 2]]
    again, other = fold_positions(class_ids, 2, seed=2**40), fold_positions(class_ids, 2, seed=1)
    assert all(np.array_equal(one, two) for one, two in zip(parts, again, strict=True))
    assert not all(np.array_equal(one, two) for one, two in zip(parts, other, strict=True))


def test_the_only_label_of_a_class_is_never_held_out_and_takes_nothing_from_the_others() -> None:
    class_ids = np.array([0, 1, 1, 2, 2, 2])
    parts = fold_positions(class_ids, 5, seed=0)
    assert sorted(np.concatenate(parts)) == [1, 2, 3, 4, 5]
    for part in parts:  # each class keeps a label
        assert set(np.delete(class_ids, part)) == {0, 1, 2}
    assert fold_positions(np.arange(4), 5, seed=0) == []
