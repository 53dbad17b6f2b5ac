"""What commands that train print at their end, and what they do when nobody reads it."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import pytest
import typer

from semco.cli.running import StatusConsole, show_how_to_resume, show_result
from semco.run.result import RunResult
from semco.training.signals import catch_signals


@pytest.mark.parametrize(
    ("steps", "times"),
    [(600, " after 600 steps; 80 s in all"), (0, "; 80 s in all")],
)
def test_the_whole_time_of_the_command_is_shown(steps: int, times: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = RunResult(method="semco", run="r", head="one_hot", num_labels=4, steps=steps, seconds=80.2)
    show_result(result, as_json=False)
    assert capsys.readouterr().out.splitlines()[0] == f"trained (there are no labelled images to test on){times}"


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ([], "stopped before the run began"),
        (["config.yaml"], "stopped. Resume with: semco resume 'my run'"),
    ],
)
def test_an_interrupt_outside_of_the_steps_says_whether_there_is_a_run_to_resume(
    files: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in files:
        Path("my run").mkdir()
        Path("my run", file).touch()
    with pytest.raises(typer.Exit) as left, show_how_to_resume(run=Path("my run")):
        raise KeyboardInterrupt
    assert left.value.exit_code == 130
    assert capsys.readouterr().err == f"{sentence}\n"


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
