"""The accuracy that a run shows and the difference to the probe, against published and hand-computed intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from semco.run.accuracy import Accuracy, Difference, wilson_interval
from semco.run.result import (
    ProbeResult,
    RunResult,
    describe_accuracy,
    describe_probe,
    describe_result,
    describe_sure,
    describe_untested,
)


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [
        # By hand: 13 of 13 gives n / (n + z^2) as the lower end.
        (13, 13, 13 / (13 + 3.841459), 1.0),
        (0, 13, 0.0, 3.841459 / (13 + 3.841459)),
        # Published example (Newcombe 1998): 81 of 263 is 0.2553 to 0.3662.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
    ],
)
def test_wilson_interval(right: int, total: int, low: float, high: float) -> None:
    assert wilson_interval(right, total) == pytest.approx((low, high), abs=1e-4)


def rights(both: int, only_model: int, only_other: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    counts = [both, only_model, only_other, neither]
    return np.repeat([True, True, False, False], counts), np.repeat([True, False, True, False], counts)


def test_a_paired_difference_by_hand() -> None:
    """30 gained and 10 lost of 98: half a photo more in each cell makes 30.5 and 10.5 of 100."""
    found = Difference.between(*rights(40, 30, 10, 18))
    half = 1.959964 * math.sqrt(41 - 20**2 / 100) / 100
    assert found.value == pytest.approx(20 / 98)
    assert (found.low, found.high) == pytest.approx((0.2 - half, 0.2 + half))
    assert not found.is_tied
    assert found.describe() == "+20.4 points, 95 % interval +8 to +32"


@pytest.mark.parametrize(("gained", "lost", "is_tied"), [(0, 0, True), (3, 1, True), (12, 2, False), (2, 12, False)])
def test_a_difference_is_tied_if_its_interval_includes_zero(gained: int, lost: int, is_tied: bool) -> None:
    found = Difference.between(*rights(50, gained, lost, 20))
    assert found.is_tied is is_tied
    assert found.describe().startswith("tied, ") is is_tied


def test_an_accuracy_is_described_with_its_photos_and_interval() -> None:
    found = Accuracy.count(np.repeat([True, False], [81, 182]), "test")
    assert found == Accuracy.of(81, 263, "test")
    assert found is not None
    assert found.describe() == "right for 30.8 % of 263 test images (95 % interval 26 to 37 %)"
    held_out = Accuracy.of(1, 4, "cross_validation").describe()
    assert "4 labelled images, each predicted without its label" in held_out
    assert Accuracy.count(np.array([], dtype=bool), "test") is None


def result(**fields: object) -> RunResult:
    values = {"method": "semco", "run": "r", "head": "one_hot", "num_labels": 4, "steps": 1, "seconds": 1.0, **fields}
    return RunResult.model_validate(values)


def test_lines_about_a_result() -> None:
    assert describe_accuracy(result()) == "trained (there are no labelled images to test on)"
    assert describe_probe(result()) is None
    probe = ProbeResult(accuracy=Accuracy.of(6, 10, "test"), difference=Difference(value=0.1, low=-0.2, high=0.4))
    own = result(accuracy=Accuracy.of(7, 10, "test"), probe=probe)
    assert describe_accuracy(own) == "right for 70.0 % of 10 test images (95 % interval 40 to 89 %)"
    assert describe_probe(own) == (
        "a linear probe on the same images: 60.0 % (tied, +10.0 points, 95 % interval -20 to +40)"
    )
    kept = result(accuracy=probe.accuracy, probe=probe.model_copy(update={"is_kept": True}))
    assert "the model is the linear probe" in str(describe_probe(kept))


def test_the_part_that_a_fitted_head_is_sure_of() -> None:
    assert describe_sure(result(pseudo_labels={"one_hot": {"ratio": 0.84}})) is None  # it was trained
    fitted = result(steps=0, pseudo_labels={"one_hot": {"ratio": 0.84}})
    assert describe_sure(fitted) == "sure of 84 % of the unlabelled images: their confidence is 90 % or more"


def test_classes_that_could_not_be_tested() -> None:
    assert describe_untested(result()) is None
    assert describe_untested(result(untested_classes=["Mallard"])) == "Mallard has one label and could not be tested"
    two = "Mallard and Teal have one label each and could not be tested"
    assert describe_untested(result(untested_classes=["Mallard", "Teal"])) == two
    many = describe_untested(result(untested_classes=list("abcdefg")))
    assert many == "a, b, c, d, e and 2 more have one label each and could not be tested"
    lines = ["trained (there are no labelled images to test on)", two]
    assert describe_result(result(untested_classes=["Mallard", "Teal"])) == lines
