"""What ``train`` and ``resume`` share: how an interrupted run says goodbye, and how a result is shown."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from semco.training.signals import Interrupted


@contextmanager
def saying_how_to_resume(run: Path) -> Iterator[None]:
    """A run that a signal stopped is saved; say how to go on and exit as the signal asks."""
    try:
        yield
    except Interrupted as stopped:
        Console(stderr=True).print(
            f"{stopped}; saved. Go on with: semco resume {shlex.quote(str(run))}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        raise typer.Exit(stopped.exit_code) from None


def show_result(result: Mapping[str, Any], *, as_json: bool) -> None:
    """A few lines for people, or one JSON object as the last line."""
    if as_json:
        typer.echo(json.dumps(result))
        return
    console = Console(soft_wrap=True)
    accuracy = result["test_accuracy"]
    said = "no test images" if accuracy is None else f"test accuracy [bold]{accuracy:.1%}[/]"
    console.print(f"{said} after {result['steps']} steps, {result['seconds']:.0f} s", highlight=False)
    console.print(f"report   {result['run']}/report.html", markup=False, highlight=False)
    console.print(f"predict  semco predict {result['run']} IMAGES...", markup=False, highlight=False)
