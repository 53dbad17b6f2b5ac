"""SIGINT, SIGTERM and SIGUSR1 end a run at the next step, after it was saved."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

# SIGUSR1 is what SLURM is asked to send before the end of a job; Windows does not have it.
CAUGHT = tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name))


class Stopped(KeyboardInterrupt):
    """A signal ended the work.

    It is not an error: the work so far is saved. It is not an `Exception` either, because code that catches exceptions
    would continue: scikit-learn would record the fit as failed and begin the next one.
    """

    def __init__(self, number: int, where: str) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}{where}")
        self.number = number

    @property
    def exit_code(self) -> int:
        return 128 + self.number

    def __reduce__(self) -> tuple[Any, ...]:
        """Let another process receive it, for example the one that started scikit-learn's workers."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[Stopped], arguments: tuple[Any, ...], values: dict[str, Any]) -> Stopped:
    stopped = kind.__new__(kind, *arguments)
    stopped.__dict__.update(values)
    return stopped


class Interrupted(Stopped):
    """A signal ended the run; everything up to ``step`` is saved in the folder ``run``."""

    def __init__(self, number: int, step: int, run: Path) -> None:
        super().__init__(number, f" after step {step}")
        self.step, self.run = step, run


class StopRequest:
    """The signal that was received, if any. A second SIGINT interrupts at once, unless the request ignores repeats."""

    def __init__(self, *, ignore_repeats: bool = False) -> None:
        self.number: int | None = None
        self.on_first: Callable[[], None] | None = None  # called at the first signal
        self.ignores_repeats = ignore_repeats

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self.number == signal.SIGINT and number == signal.SIGINT and not self.ignores_repeats:
            raise KeyboardInterrupt
        is_first, self.number = self.number is None, number
        if is_first and self.on_first is not None:
            self.on_first()


@contextmanager
def announce_stop(stop: StopRequest, announce: Callable[[str], None]) -> Iterator[None]:
    """Call ``announce`` with a sentence at the first signal, because a step may take long.

    Another thread calls it: a signal may come while the main thread holds the locks that printing needs.
    """
    numbers: queue.SimpleQueue[int | None] = queue.SimpleQueue()  # the one queue that signal handlers may use

    def wait() -> None:
        number = numbers.get()
        if number is not None:
            hint = "" if stop.ignores_repeats or number != signal.SIGINT else "; press Ctrl-C again to stop at once"
            announce(f"{signal.Signals(number).name}: the run stops after this step and saves{hint}")

    thread = threading.Thread(target=wait, name="announce-stop", daemon=True)
    thread.start()
    stop.on_first = lambda: numbers.put(stop.number)
    try:
        yield
    finally:
        stop.on_first = None
        numbers.put(None)
        thread.join()


@contextmanager
def catch_signals(*, ignore_repeats: bool = False) -> Iterator[StopRequest]:
    """Catch the signals for the length of the block. Only the main thread can; in others nothing is caught.

    One of several processes ignores repeats: it receives the same Ctrl-C from the terminal and from torchrun.
    """
    request = StopRequest(ignore_repeats=ignore_repeats)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    old = {number: signal.signal(number, request) for number in CAUGHT}
    try:
        yield request
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
