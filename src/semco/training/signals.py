"""SIGINT and SIGTERM end a run at the next step, after it was saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

CAUGHT = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):  # noqa: N818 (not an error: the run is saved and can go on)
    """A signal ended the run; everything up to ``step`` is saved."""

    def __init__(self, number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} after step {step}")
        self.number = number
        self.step = step

    @property
    def exit_code(self) -> int:
        return 128 + self.number


class StopRequest:
    """Which signal has come, if any. A second SIGINT interrupts at once."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self.number == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Catch the signals for the length of the block; only the main thread can, elsewhere nothing is caught."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    old = {number: signal.signal(number, request) for number in CAUGHT}
    try:
        yield request
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
