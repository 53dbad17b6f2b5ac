"""Hides what image libraries print about damaged files: each such file is reported once, by us, with the reason.

The list of ignored warnings and the file behind stderr belong to the whole process, and several threads decode images.
So the first thread that enters hides the messages, and the last thread that leaves restores them.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TextIO, cast

STDERR = 2


class _Shared:
    """A context manager that several threads can be inside of; the first enters and the last leaves ``make()``."""

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self._make, self._lock, self._inside, self._stack = make, threading.Lock(), 0, ExitStack()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                self._stack.enter_context(self._make())
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._stack.close()


@contextmanager
def _ignore_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _discard_stderr() -> Iterator[None]:
    """Discard what is written to file number 2; what Python writes to ``sys.stderr`` still appears."""
    try:
        saved = os.dup(STDERR)
    except OSError:  # there is no stderr
        yield
        return
    before, kept = sys.stderr, _open_like(sys.stderr, saved)
    discard = os.open(os.devnull, os.O_WRONLY)
    os.dup2(discard, STDERR)
    os.close(discard)
    sys.stderr = kept or before
    try:
        yield
    finally:
        if kept is not None:
            kept.flush()
            sys.stderr = before if sys.stderr is kept else sys.stderr
        os.dup2(saved, STDERR)
        os.close(saved)


def _open_like(stream: TextIO | None, number: int) -> TextIO | None:
    """Return a stream to the file ``number`` if ``stream`` writes to file number 2, else None."""
    try:
        if stream is None or stream.fileno() != STDERR:
            return None
        stream.flush()
    except (OSError, ValueError, AttributeError):  # it is no file, or it is closed
        return None
    raw = io.FileIO(number, "w", closefd=False)
    encoding, errors = getattr(stream, "encoding", "utf-8"), getattr(stream, "errors", "backslashreplace")
    return cast(TextIO, io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=True))


ignore_warnings = _Shared(_ignore_warnings)
discard_stderr = _Shared(_discard_stderr)
