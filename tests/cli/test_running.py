"""What commands that train print at their end, and what they do when nobody reads it."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import tomllib
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


# Each sends the signal at a known moment, in the process of the command.
PREPARE = {
    "while it is imported": """
        class Finder:
            def find_spec(self, name, *_):
                if name == MODULE:
                    interrupt()
        sys.meta_path.insert(0, Finder())
    """,
    "while an error is shown": """
        import semco.cli.main
        semco.cli.main.exit_code = lambda _: interrupt()
    """,
    "twice": """
        import semco.cli.main
        def work(_):
            try:
                interrupt()
            finally:
                interrupt()
        semco.cli.main.exit_code = work
    """,
}
START = """
import atexit, os, runpy, signal, sys, textwrap
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
MODULE = sys.argv.pop(1)
exec(textwrap.dedent(sys.argv.pop(1)))
"""
AS_MODULE = "runpy.run_module('semco', run_name='__main__')"


def run(start: str, prepare: str, module: str = "typer") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START + start, module, prepare, "recipes"]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def as_script() -> str:
    """The program that an installer writes for the command ``semco``."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["semco"].partition(":")
    return f"from {module} import {function} as run\nsys.exit(run())"


@pytest.mark.parametrize("start", [AS_MODULE, as_script()], ids=["python -m semco", "semco"])
@pytest.mark.parametrize("moment", PREPARE)
def test_an_interrupt_ends_with_its_code_and_no_traceback(moment: str, start: str) -> None:
    done = run(start, PREPARE[moment])
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(("module", "said"), [("rich.console", ""), ("semco.cli.main", ""), ("yaml", "stopped\n")])
def test_an_interrupt_of_an_import_says_at_most_that_the_command_stopped(module: str, said: str) -> None:
    """The last one is imported by the command, which has begun."""
    done = run(AS_MODULE, PREPARE["while it is imported"], module)
    assert (done.returncode, done.stderr) == (130, said)


def test_an_interrupt_of_the_end_of_the_interpreter_changes_nothing() -> None:
    done = run(AS_MODULE, "atexit.register(interrupt)")
    assert (done.returncode, done.stderr) == (0, "")
    assert "semco" in done.stdout
