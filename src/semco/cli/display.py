"""The live display of a run: a progress bar in a terminal, occasional lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from semco.errors import duration

LOSS = "loss/"
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the losses and what each head retains.")]
# Outside a terminal: seconds after which the time left is printed first, and the part of loading between two lines.
FIRST_ESTIMATE, LOADING_PART = 5.0, 0.25
# Metrics shown besides the losses with -v. As in the report, labelled images are not counted as retained (mask_* does).
SHOWN = {
    "pseudo/one_hot/ratio": "retained by the one-hot head",
    "pseudo/semantic/ratio": "retained by the semantic head",
    "validation_accuracy": "validation accuracy",
}


class Display:
    """A `semco.training.observer.Observer` that shows the progress of a run. Use it as a context manager.

    With ``is_verbose`` it shows the losses and what each head retains.
    """

    def __init__(self, console: Console, title: str, is_verbose: bool = False) -> None:
        self._console, self._title, self._is_verbose = console, title, is_verbose
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("·"),
            TimeElapsedColumn(),
            TextColumn("·"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
        )
        self._task = self._progress.add_task(title, total=None)
        self._values: dict[str, float] = {}
        self._lines_every = 0.0  # steps between two printed lines without a validation
        self._next_line = 0.0  # the step from which the next such line is printed
        self._started, self._first_step, self._total_steps = 0.0, 0, 0
        self._has_estimate = False  # whether the time left has been printed, outside a terminal
        self._loading_started = 0.0, 0  # when, and with how much done
        self._loading_printed = ("", 0.0)  # the work and the part of it that was printed last, outside a terminal
        self._live = Live(self._progress, console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def on_loading(self, what: str, done: int, total: int) -> None:
        if done == 0:  # the announcement of long work
            self.on_message(what)
            return
        change = self._progress.update if self._progress.tasks[0].description == what else self._progress.reset
        change(self._task, description=what, total=total, completed=done)
        if done >= total:  # what follows may take long: a finished bar would look as if nothing happened
            self._progress.reset(self._task, description=self._title)
            self._progress.tasks[0].total = None
        if self._console.is_terminal or done >= total:
            return
        before, part = self._loading_printed
        if before != what:
            self._loading_printed, self._loading_started = (what, 0.0), (time.monotonic(), done)
        elif done / total >= part + LOADING_PART:
            self._loading_printed = (what, done / total)
            began, first = self._loading_started
            left = duration((total - done) * (time.monotonic() - began) / max(1, done - first))
            text = f"{self._title}: {what}, {done:,} of {total:,}, about {left} left"
            self._console.print(text, markup=False, highlight=False)

    def on_start(self, step: int, total_steps: int) -> None:
        self._progress.reset(self._task, total=total_steps, completed=step, description=self._title)
        self._lines_every = total_steps / 20
        self._next_line = step + self._lines_every
        self._started, self._first_step, self._total_steps = time.monotonic(), step, total_steps

    def on_step(self, step: int) -> None:
        self._progress.update(self._task, completed=step)
        seconds = time.monotonic() - self._started
        if not (self._console.is_terminal or self._has_estimate) and seconds > FIRST_ESTIMATE:
            self._has_estimate = True
            self._console.print(f"{self._title}: step {step}{self._time_left(step)}", markup=False, highlight=False)

    def _time_left(self, step: int) -> str:
        """Return the time that the remaining steps take at the present pace, as the end of a line."""
        taken, left = step - self._first_step, self._total_steps - step
        if taken <= 0 or left <= 0:
            return ""
        return f", about {duration(left * (time.monotonic() - self._started) / taken)} left"

    def on_message(self, text: str) -> None:
        self._console.print(f"{self._title}: {text}", style="dim", markup=False, highlight=False)

    def on_line(self, line: Mapping[str, float | None]) -> None:
        self._values |= {name: value for name, value in line.items() if value is not None}
        if self._console.is_terminal:
            self._live.update(Group(self._progress, self._table()))
        elif "validation_accuracy" in line or self._values["step"] >= self._next_line:
            self._next_line = self._values["step"] + self._lines_every
            self._console.print(self._text_line(), markup=False, highlight=False, soft_wrap=True)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        loss = [("loss", self._loss_text())] if self._is_verbose else []
        for name, value in [*loss, *self._shown_metrics()]:
            table.add_row(f"  {name}", value)
        return table

    def _text_line(self) -> str:
        values = self._values
        shown = "".join(f", {name} {value}" for name, value in self._shown_metrics())
        step = int(values["step"])
        loss = f", loss {values['loss']:.3f}" if self._is_verbose else ""
        return f"{self._title}: step {step}, {values['seconds']:.0f} s{loss}{shown}{self._time_left(step)}"

    def _loss_text(self) -> str:
        terms = ", ".join(
            f"{name.removeprefix(LOSS).replace('_', ' ')} {value:.3f}"
            for name, value in self._values.items()
            if name.startswith(LOSS)
        )
        return f"{self._values.get('loss', 0.0):.3f}; terms before weighting: {terms}"

    def _shown_metrics(self) -> list[tuple[str, str]]:
        values = self._values
        if self._is_verbose:
            return [(SHOWN[name], f"{values[name]:.1%}") for name in SHOWN if name in values]
        ratios = [values[name] for name in SHOWN if name.endswith("/ratio") and name in values]
        shown = [("sure of", f"{100 * max(ratios):.0f} % of the unlabelled images")] if ratios else []
        if "validation_accuracy" in values:
            shown.append(("right for", f"{100 * values['validation_accuracy']:.1f} % of the validation images"))
        return shown
