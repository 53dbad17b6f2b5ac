"""The command line: one file per command, put together here."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import NoReturn

import typer
from rich.console import Console

from semco.cli import (
    analyse,
    backbones,
    bench,
    compare,
    config,
    continue_run,
    data,
    datasets,
    demo,
    evaluate,
    export,
    labels,
    methods,
    predict,
    recipes,
    report,
    reproduce,
    resume,
    serve,
    settings,
    studio,
    suggest,
    sweep,
    train,
    watch,
)
from semco.cli.running import exit_code

app = typer.Typer(
    name="semco",
    help="Train an image classifier from a handful of labels, using what the class names mean.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(train.train)
app.command()(studio.studio)
app.command()(resume.resume)
app.command()(watch.watch)
app.command()(compare.compare)
app.command()(sweep.sweep)
app.command()(sweep.ablate)
app.command()(reproduce.reproduce)
app.command()(evaluate.evaluate)
app.command()(predict.predict)
app.command()(suggest.suggest)
app.command("continue")(continue_run.continue_run)
app.command()(export.export)
app.command()(serve.serve)
app.command()(report.report)
app.command()(analyse.analyse)
app.command()(methods.methods)
app.command()(backbones.backbones)
app.command()(recipes.recipes)
app.command()(settings.settings)
app.command()(config.config)
app.add_typer(data.app, name="data")
app.add_typer(datasets.app, name="datasets")
app.add_typer(labels.app, name="labels")
app.add_typer(bench.app, name="bench")


@app.callback(invoke_without_command=True)
def version(show: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if show:
        from semco import __version__

        Console().print(f"semco {__version__}")
        raise typer.Exit


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
    except BrokenPipeError:  # the reader of the output has closed it, for example `| head`
        code = 141
    leave(code)


def print_any_name() -> None:
    """Let names that cannot be printed, for example of files whose bytes are not UTF-8, appear as ``\\udce9``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def leave(code: int) -> NoReturn:
    """End the process; what the interpreter does at its end is neither interrupted nor waited for after a signal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # gloo's threads do not always survive the end of the interpreter: sometimes a process that had finished and saved
    # its work crashed, and torchrun reported the run as failed.
    if code > 128 or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        os._exit(code)
    sys.exit(code)
