"""Intervals of accuracies on few images, and the line about the linear probe."""

from __future__ import annotations

import pytest

from semco.run.result import (
    ProbeResult,
    RunResult,
    describe_headline,
    describe_interval,
    describe_probe,
    wilson_interval,
)

HELD_OUT = {"held_out_images": 70, "held_out_accuracy": 0.8, "trained_accuracy": 0.85}


@pytest.mark.parametrize(
    ("accuracy", "images", "low", "high"),
    [
        # By hand: 13 of 13 gives n / (n + z^2) as the lower end.
        (1.0, 13, 13 / (13 + 3.841459), 1.0),
        (0.0, 13, 0.0, 3.841459 / (13 + 3.841459)),
        # Published example (Newcombe 1998): 81 of 263 is 0.2553 to 0.3662.
        (81 / 263, 263, 0.2553, 0.3662),
        (15 / 148, 148, 0.0624, 0.1605),
    ],
)
def test_wilson_interval(accuracy: float, images: int, low: float, high: float) -> None:
    assert wilson_interval(accuracy, images) == pytest.approx((low, high), abs=1e-4)


def result(**fields: object) -> RunResult:
    values = {"method": "semco", "run": "r", "head": "one_hot", "num_labels": 4, "steps": 1, "seconds": 1.0, **fields}
    return RunResult.model_validate(values)


def test_a_headline_on_few_images_carries_its_interval() -> None:
    few = result(validation_accuracy=1.0, validation_images=13)
    assert describe_headline(few) == (
        "validation accuracy 100.0% (77% to 100% at 95 % confidence, as there are only 13 images)"
    )
    assert describe_headline(result(validation_accuracy=1.0, validation_images=30)) == "validation accuracy 100.0%"
    tested = result(validation_accuracy=1.0, validation_images=3, test_accuracy=0.5, test_images=10)
    assert "24% to 76%" in describe_headline(tested)
    assert "only" not in describe_headline(result(test_accuracy=0.5, test_images=100, validation_images=3))
    assert describe_headline(result(validation_accuracy=0.5)) == "validation accuracy 50.0%"  # of an earlier version
    assert describe_interval(0.5, 0) == ""


@pytest.mark.parametrize(
    ("probe", "test_accuracy", "line"),
    [
        (None, 0.9, None),
        ({"test_accuracy": 0.7}, 0.9, "linear probe on the same labels: 70.0%"),
        (
            {"test_accuracy": 0.7, "is_kept": True},
            0.7,
            "linear probe on the same labels: 70.0%; it was better than training and is kept",
        ),
        (
            HELD_OUT,
            None,
            "accuracy on 70 labelled images that were held out in turn: trained 85.0%, linear probe 80.0%",
        ),
        (
            {"held_out_images": 12, "held_out_accuracy": 0.5, "trained_accuracy": 1.0},
            None,
            "accuracy on 12 labelled images that were held out in turn: trained 100.0%, linear probe 50.0% "
            "(trained: 76% to 100% at 95 % confidence, as there are only 12 images)",
        ),
        (
            {"held_out_images": 40, "held_out_accuracy": 0.725, "trained_accuracy": 0.675},
            None,
            "accuracy on 40 labelled images that were held out in turn: trained 67.5%, linear probe 72.5%; the "
            "difference is within one standard deviation, so the trained network is kept",
        ),
        # The difference on test images is another one than that on held-out images.
        (
            {"test_accuracy": 0.575, "held_out_images": 40, "held_out_accuracy": 0.725, "trained_accuracy": 0.675},
            0.64,
            "linear probe on the same labels: 57.5%",
        ),
        ({}, None, None),
    ],
)
def test_the_line_about_the_probe(
    probe: dict[str, float] | None, test_accuracy: float | None, line: str | None
) -> None:
    yardstick = None if probe is None else ProbeResult(strength=1.0, **probe)
    assert describe_probe(result(test_accuracy=test_accuracy, probe=yardstick)) == line
