"""What ``--help`` shows of every command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from semco.cli.main import app


def all_commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of a command and of those below it."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from all_commands(inner, (*words, name))


def test_flags_are_shown_without_a_type() -> None:
    commands = list(all_commands(get_command(app)))
    assert {(), ("continue",), ("data", "cache"), ("labels", "build")} <= set(commands)
    for words in commands:
        shown = CliRunner().invoke(app, [*words, "--help"])
        assert shown.exit_code == 0, words
        assert "bool" not in shown.output.lower(), words
        assert "--help" in shown.output, words
