"""What a method's fields take, in words."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from semco.cli.main import app
from semco.cli.methods import takes


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "number", "minimum": 0, "maximum": 1.0}, "a number from 0 to 1"),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "a number above 0 below 1"),
        ({"type": "integer", "minimum": 1}, "a whole number from 1"),
        ({"type": "boolean"}, "true or false"),
        ({"type": "string", "enum": ["both", "discard"]}, "both, discard"),
        ({"anyOf": [{"type": "number"}, {"const": "auto", "type": "string"}]}, "a number or auto"),
    ],
)
def test_words(schema: dict[str, Any], words: str) -> None:
    assert takes(schema) == words


def test_a_methods_fields() -> None:
    shown = CliRunner().invoke(app, ["methods", "semco"]).output
    assert "method.tau_e" in shown
    assert "class" not in shown
