"""``semco doctor``: what this installation and this machine can do."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console


def doctor(
    speed: Annotated[bool, typer.Option(help="Measure the speed, which takes a few seconds.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show versions, cores, instruction sets, GPU, extras, disk space and speed; add this to a report of a problem."""
    from semco.doctor import examine

    if as_json:
        typer.echo(json.dumps({"findings": [asdict(finding) for finding in examine(with_speed=speed)]}, indent=2))
        return
    console = Console(soft_wrap=True, markup=False, highlight=False)
    for finding in examine(with_speed=speed):
        advice = "" if finding.advice is None else f"; {finding.advice}"
        console.print(f"{finding.name:18}{finding.value}{advice}")
