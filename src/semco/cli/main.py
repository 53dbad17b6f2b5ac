"""The command line, put together here."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import NoReturn

import typer

from semco.cli import (
    analyse,
    backbones,
    compare,
    data,
    datasets,
    demo,
    doctor,
    evaluate,
    export,
    labels,
    predict,
    report,
    reproduce,
    runs,
    settings,
    studio,
    train,
)
from semco.cli.app import App
from semco.cli.running import exit_code

app = App(
    name="semco",
    help="Train an image classifier from a handful of labels, using what the class names mean.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    demo.demo, train.train, studio.studio, runs.resume, compare.compare, reproduce.reproduce,
    evaluate.evaluate, predict.predict, runs.suggest, runs.continue_run, export.export, export.serve, report.report,
    analyse.analyse, settings.methods, backbones.backbones, settings.recipes, settings.settings, settings.config,
    doctor.doctor,
)  # fmt: skip
for command in COMMANDS:
    app.command(command.__name__.removesuffix("_run"))(command)  # `continue` is no name of a function
app.add_typer(data.app, name="data")
app.add_typer(datasets.app, name="datasets")
app.add_typer(labels.app, name="labels")


FIRST_STEPS = """\
SemCo trains an image classifier from a handful of labels, using what the class names mean.

  semco demo             see it work on bundled photos
  semco studio photos/   label photos on a page, train, review, export
  semco train photos/    train on a folder: one sub-folder per class, the other photos in unlabeled/
  semco doctor           what this machine can do, and what is not installed
  semco --help           all commands"""


@app.callback(invoke_without_command=True)
def begin(
    context: typer.Context,
    show_version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    if show_version:
        from semco import __version__

        typer.echo(f"semco {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(FIRST_STEPS)


def main() -> None:
    """Run a command and exit with its exit code. Ctrl-C ends it with code 130, whenever it comes."""
    print_any_name()
    try:
        try:
            code = exit_code(app)
        except SystemExit as ended:  # raised by typer
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # the reader of the output has gone, for example `| head`
        code = 141
    leave(code)


def print_any_name() -> None:
    """Let names that cannot be printed, for example of files whose bytes are not UTF-8, appear as ``\\udce9``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def leave(code: int) -> NoReturn:
    """End the process. Ctrl-C cannot interrupt the clean-up of the interpreter; after a signal it is skipped."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # gloo's threads do not always survive the end of the interpreter: sometimes a process that had finished and saved
    # its work crashed, and torchrun reported the run as failed.
    if code > 128 or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        os._exit(code)
    sys.exit(code)
