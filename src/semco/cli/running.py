"""Shared by the commands that train: several processes, exit codes, how to resume, the result."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import shlex
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape

from semco.errors import SemcoWarning, UserError, duration
from semco.training.signals import Interrupted, Stopped, StopRequest

if TYPE_CHECKING:
    from semco.run.result import RunResult

STARTED = time.monotonic()  # this file is imported when a command starts


@contextmanager
def importing() -> Iterator[None]:
    """Import large libraries with the garbage collector turned off, which saves a seventh of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def is_main() -> bool:
    """Return whether this process prints: a single process, or the first of those that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


class StatusConsole(Console):
    """A console for the messages of a run; if its reader has gone, the run is saved and stops, as after SIGTERM.

    So the runs of a killed comparison lose nothing, whether they notice first that it ended or that the pipe is closed.
    """

    def on_broken_pipe(self) -> None:
        self.quiet = True
        if not isinstance(signal.getsignal(signal.SIGTERM), StopRequest):  # no run has begun
            super().on_broken_pipe()
        signal.raise_signal(signal.SIGTERM)


def status_console() -> Console:
    """Return the console for status messages; only one of several processes prints."""
    return StatusConsole(stderr=True, soft_wrap=True, quiet=not is_main())


def exit_code(command: Callable[..., None], *arguments: object) -> int:
    """Run a command and return its exit code; bad input ends in one sentence and exit code 2."""
    try:
        with plain_warnings():
            command(*arguments)
    except UserError as error:
        status_console().print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:  # a path that the system refuses, or a disk that fails, anywhere in a command
        status_console().print(f"[bold red]error:[/] {escape(system_error(error))}", highlight=False)
        return 2
    except typer.Exit as leaving:
        return leaving.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def system_error(error: OSError) -> str:
    """Return an error of the operating system as one sentence."""
    path = f"cannot use {error.filename}: " if error.filename else ""
    return str(UserError(f"{path}{error.strerror or error}; check the path, its permissions and the disk."))


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings of SemCo as one sentence each, and none of the libraries, which are not meant for users."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        yield


def _show_warning(message: Warning | str, category: type[Warning], *_place: object, **_more: object) -> None:
    if issubclass(category, SemcoWarning):
        status_console().print(f"[bold yellow]warning:[/] {escape(str(message))}", highlight=False)


@contextmanager
def stops_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, so that its temporary files are removed; the exit code is 143."""

    def stop(number: int, _frame: object) -> None:
        raise Stopped(number, "")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_in_processes(processes: int, command: Callable[..., None], *arguments: object) -> None:
    """Run a command in several processes and exit with their exit code."""
    from semco.distributed.launch import launch

    raise typer.Exit(launch(processes, exit_code, command, *arguments))


@contextmanager
def show_how_to_resume(command: str | None = None, run: Path | None = None) -> Iterator[None]:
    """When a signal stops the run, print the command that resumes it and exit as the signal asks.

    Outside of the steps Ctrl-C saves nothing; ``run`` is the folder that tells whether there is a run to resume.
    """
    try:
        yield
    except Interrupted as stopped:
        sentence, code = f"{stopped}; saved. Resume with: {command or _resume_command(stopped.run)}", stopped.exit_code
    except KeyboardInterrupt:
        if run is None:
            raise
        is_begun, code = (run / "config.yaml").exists(), 130
        sentence = f"stopped. Resume with: {_resume_command(run)}" if is_begun else "stopped before the run began"
    else:
        return
    status_console().print(sentence, markup=False, highlight=False)
    raise typer.Exit(code)


def _resume_command(run: Path) -> str:
    """Return the command with as many processes as this one started; with one if torchrun started them."""
    count = os.environ.get("WORLD_SIZE", "1") if multiprocessing.parent_process() else "1"
    return f"semco resume {shlex.quote(str(run))}" + (f" --processes {count}" if count != "1" else "")


def show_result(result: RunResult, *, as_json: bool) -> None:
    """Print a few lines, or one JSON object as the last line."""
    if not is_main():
        return
    if as_json:
        typer.echo(json.dumps(result.model_dump(mode="json")))
        return
    from semco.run.result import describe_result

    console = Console(soft_wrap=True, markup=False, highlight=False)
    accuracy, *others = describe_result(result)
    for line in (f"{accuracy}{_steps_and_time(result)}", *others):
        console.print(line)
    console.print(f"report   {result.run}/report.html")
    console.print(f"predict  semco predict {shlex.quote(result.run)} IMAGES...")


def _steps_and_time(result: RunResult) -> str:
    """Return the number of steps, and the duration of the run from the start of its command."""
    return (f" after {result.steps:,} steps" if result.steps else "") + f"; {duration(result.seconds)} in all"
