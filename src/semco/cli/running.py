"""What commands that train share: several processes, exit codes, how an interrupted run says goodbye, its result."""

from __future__ import annotations

import json
import os
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from semco.errors import UserError
from semco.training.signals import Interrupted


def is_main() -> bool:
    """Whether this process speaks: alone, or the first of those that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def messages() -> Console:
    """Where people are told things; of several processes only one does."""
    return Console(stderr=True, soft_wrap=True, quiet=not is_main())


def exit_code(command: Callable[..., None], *arguments: object) -> int:
    """Run a command; the user's mistakes end in one sentence and exit code 2."""
    if not is_main():
        warnings.simplefilter("ignore")
    try:
        command(*arguments)
    except UserError as error:
        messages().print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
        return 2
    except typer.Exit as leaving:
        return leaving.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def run_in_processes(processes: int, command: Callable[..., None], *arguments: object) -> None:
    """Run a command in several processes and leave with their exit code."""
    from semco.training.launch import launch

    raise typer.Exit(launch(processes, exit_code, command, *arguments))


@contextmanager
def saying_how_to_resume(command: str | None = None) -> Iterator[None]:
    """A run that a signal stopped is saved; say how to go on, by ``command`` or alone, and exit as the signal asks."""
    try:
        yield
    except Interrupted as stopped:
        way_on = command or f"semco resume {shlex.quote(str(stopped.run))}"
        messages().print(f"{stopped}; saved. Go on with: {way_on}", markup=False, highlight=False)
        raise typer.Exit(stopped.exit_code) from None


def show_result(result: Mapping[str, Any], *, as_json: bool) -> None:
    """A few lines for people, or one JSON object as the last line."""
    if not is_main():
        return
    if as_json:
        typer.echo(json.dumps(result))
        return
    console = Console(soft_wrap=True)
    said = judged(result)
    outcome = f"{said[0]} [bold]{said[1]}[/]" if said else "trained (there is no image to test on)"
    took = f"{result['steps']:,} steps, {result['seconds']:.0f} s"
    console.print(f"{outcome} after {took}", highlight=False)
    console.print(f"report   {result['run']}/report.html", markup=False, highlight=False)
    console.print(f"predict  semco predict {shlex.quote(result['run'])} IMAGES...", markup=False, highlight=False)


def judged(result: Mapping[str, Any]) -> tuple[str, str] | None:
    """The best there is to say, as words and a number: of test images, else of held-out labels, else nothing."""
    for part in ("test", "validation"):
        if (accuracy := result[f"{part}_accuracy"]) is not None:
            return f"{part} accuracy", f"{accuracy:.1%}"
    return None
