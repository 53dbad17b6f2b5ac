"""Groups of commands whose help shows flags without a type (``--json``) and that report a stop by Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


def _without_types(params: list[Any]) -> list[Any]:
    for flag in (each for each in params if getattr(each, "is_flag", False)):
        flag.metavar = ""
    return params


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:  # also that a run was stopped, by whichever signal
            typer.echo("stopped", err=True)
            raise typer.Exit(getattr(stopped, "exit_code", 130)) from None


class App(typer.Typer):
    """A `typer.Typer` of such commands; errors keep their plain tracebacks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=_Group, pretty_exceptions_enable=False, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[..., Any]:
        return super().command(name, cls=_Command, **options)
