"""What commands that train print at their end."""

from __future__ import annotations

import pytest

from semco.cli.running import show_probe
from semco.run.result import ProbeResult, RunResult

HELD_OUT = {"held_out_images": 70, "held_out_accuracy": 0.8, "trained_accuracy": 0.85}


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
        ({}, None, None),
    ],
)
def test_the_line_about_the_probe(
    probe: dict[str, float] | None, test_accuracy: float | None, line: str | None
) -> None:
    yardstick = None if probe is None else ProbeResult(strength=1.0, **probe)
    result = RunResult(
        method="semco_plus",
        run="r",
        head="one_hot",
        num_labels=70,
        steps=5,
        seconds=1.0,
        test_accuracy=test_accuracy,
        probe=yardstick,
    )
    assert show_probe(result) == line
