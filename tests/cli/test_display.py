"""The lines that a run prints without a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from semco.cli.display import Display


def printed_steps(lines: list[dict[str, float]], total: int) -> list[int]:
    """Return the steps for which a line is printed."""
    stream = io.StringIO()
    with Display(Console(file=stream, width=200), "run") as display:
        display.on_start(0, total)
        for line in lines:
            display.on_line({"seconds": 1.0, "loss": 1.0, **line})
    return [int(text.split("step ")[1].split(",")[0]) for text in stream.getvalue().splitlines()]


def test_every_validation_is_printed() -> None:
    lines = [{"step": 1}, {"step": 2, "validation_accuracy": 0.5}, {"step": 3}, {"step": 4, "validation_accuracy": 0.6}]
    assert printed_steps(lines, total=1000) == [2, 4]


def test_without_validation_about_twenty_lines_are_printed() -> None:
    """Metrics come every second step; a line is printed at least five steps after the last one."""
    assert printed_steps([{"step": step} for step in range(2, 101, 2)], total=100) == list(range(6, 97, 6))


@pytest.mark.parametrize(
    ("is_verbose", "shown"),
    [(True, "loss 1.000, retained by the one-hot head 82.0%"), (False, "sure of 82 % of the unlabelled images")],
)
def test_labelled_images_are_not_among_the_retained_ones(is_verbose: bool, shown: str) -> None:
    """The ratio is that of the report; ``mask_one_hot`` is the mean over the pool, images with a label included."""
    stream = io.StringIO()
    with Display(Console(file=stream, width=200), "run", is_verbose) as display:
        display.on_start(0, 10)
        display.on_line({"step": 10, "seconds": 1.0, "loss": 1.0, "mask_one_hot": 0.88, "pseudo/one_hot/ratio": 0.82})
    assert stream.getvalue() == f"run: step 10, 1 s, {shown}\n"


def test_each_kind_of_work_has_its_own_clock_and_no_finished_bar_stays() -> None:
    now = [0.0]
    display = Display(Console(file=io.StringIO(), get_time=lambda: now[0]), "run")
    task = display._progress.tasks[0]
    seen = []
    for second, what, done in [
        (10, "reading", 50),
        (20, "reading", 90),
        (70, "frozen layers", 32),
        (80, "frozen layers", 64),
    ]:
        now[0] = second
        display.on_loading(what, done, 100)
        seen.append((task.description, task.completed, task.total, task.elapsed))
    assert seen == [
        ("reading", 50, 100, 0),
        ("reading", 90, 100, 10),
        ("frozen layers", 32, 100, 0),
        ("frozen layers", 64, 100, 10),
    ]
    display.on_loading("frozen layers", 100, 100)
    assert (task.description, task.completed, task.total) == ("run", 0, None)
