"""Groups of commands whose help shows flags without a type (``--json``) and that report a stop by Ctrl-C.

A wrong option or argument is a `UserError` like any other bad input.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from semco.errors import UserError, brief, nearest

# The error of click for a wrong command line; newer versions of typer bring a click of their own.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]


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

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            code = super().main(*args, **options | {"standalone_mode": False, "prog_name": "semco"})
        except USAGE_ERROR as error:
            raise usage_error(error) from None
        sys.exit(code or 0)


def usage_error(error: Any) -> BaseException:
    """Return an error of click as one sentence that names the value and the help of the command."""
    if error.ctx is None or type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed
        return SystemExit(error.exit_code)
    message = error.format_message().strip().rstrip(".")
    if unknown := re.match(r"No such command '(.+?)'", message):  # only newer versions of typer suggest one
        message = unknown[0] + nearest(unknown[1], error.ctx.command.commands)
    message = message.replace(": Value error, ", ": ")  # pydantic's words; its other reasons do not name the value
    reasons = getattr(error.__cause__, "errors", None)
    value = "" if reasons is None else brief(reasons()[0]["input"])
    message += "" if value in message else f", not {value}"
    end = "" if message.endswith("?") else ";"
    return UserError(f"{message[:1].lower()}{message[1:]}{end} see {error.ctx.command_path} --help.")


class App(typer.Typer):
    """A `typer.Typer` of such commands; errors keep their plain tracebacks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=_Group, pretty_exceptions_enable=False, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[..., Any]:
        return super().command(name, cls=_Command, **options)
