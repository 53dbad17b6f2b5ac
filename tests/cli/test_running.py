"""What commands that train print at their end, and what they do when nobody reads it."""

from __future__ import annotations

import io
import signal

import pytest

from semco.cli.running import StatusConsole
from semco.training.signals import catch_signals


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
