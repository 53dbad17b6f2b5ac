"""What a run says where there is no terminal."""

from __future__ import annotations

import io

from rich.console import Console

from semco.cli.display import Display


def said(lines: list[dict[str, float]], total: int) -> list[int]:
    """The steps of which something is said."""
    stream = io.StringIO()
    with Display(Console(file=stream, width=200), "run") as display:
        display.on_start(0, total)
        for line in lines:
            display.on_line({"seconds": 1.0, "loss": 1.0, **line})
    return [int(text.split("step ")[1].split(",")[0]) for text in stream.getvalue().splitlines()]


def test_validations_are_told() -> None:
    lines = [{"step": 1}, {"step": 2, "validation_accuracy": 0.5}, {"step": 3}, {"step": 4, "validation_accuracy": 0.6}]
    assert said(lines, total=1000) == [2, 4]


def test_without_validation_images_a_twentieth_of_the_run_is() -> None:
    """Lines at every second step, and one is due five steps after the last that was told."""
    assert said([{"step": step} for step in range(2, 101, 2)], total=100) == list(range(6, 97, 6))
