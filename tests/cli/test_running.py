"""What commands that train print at their end, and what they do when nobody reads it."""

from __future__ import annotations

import io
import signal

import pytest

from semco.cli.running import StatusConsole, show_probe
from semco.run.result import ProbeResult, RunResult
from semco.training.signals import catch_signals

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


class ClosedPipe(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_a_run_whose_messages_nobody_reads_is_asked_to_stop() -> None:
    console = StatusConsole(file=ClosedPipe())
    with catch_signals() as stop:
        console.print("step 1")
        assert stop.number == signal.SIGTERM
        stop.number = None
        console.print("step 2")  # is not even tried
        assert stop.number is None


def test_without_a_run_a_closed_pipe_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.dup2", lambda *_: None)  # rich would silence the standard output of the tests
    with pytest.raises(SystemExit):
        StatusConsole(file=ClosedPipe()).print("hello")
