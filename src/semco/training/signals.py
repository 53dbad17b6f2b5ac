"""SIGINT and SIGTERM end a run at the next step, after it was saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

CAUGHT = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):  # noqa: N818 (not an error: what was begun is saved and can go on)
    """A signal ended the work at a point that can be told."""

    def __init__(self, number: int, where: str) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}{where}")
        self.number = number

    @property
    def exit_code(self) -> int:
        return 128 + self.number


class Interrupted(Stopped):
    """A signal ended the run; everything up to ``step`` is saved in the folder ``run``."""

    def __init__(self, number: int, step: int, run: Path) -> None:
        super().__init__(number, f" after step {step}")
        self.step, self.run = step, run


class StopRequest:
    """Which signal has come, if any. A second SIGINT interrupts at once, unless the request is ``patient``."""

    def __init__(self, *, patient: bool = False) -> None:
        self.number: int | None = None
        self.told: Callable[[], None] | None = None  # called by the first signal
        self._patient = patient

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self.number == signal.SIGINT and number == signal.SIGINT and not self._patient:
            raise KeyboardInterrupt
        first, self.number = self.number is None, number
        if first and self.told is not None:
            self.told()


@contextmanager
def stop_request(*, patient: bool = False) -> Iterator[StopRequest]:
    """Catch the signals for the length of the block; only the main thread can, elsewhere nothing is caught.

    One of several processes is patient: it hears of the same Ctrl-C from the terminal and from torchrun.
    """
    request = StopRequest(patient=patient)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    old = {number: signal.signal(number, request) for number in CAUGHT}
    try:
        yield request
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
