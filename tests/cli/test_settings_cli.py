"""The fields that --set takes, in words."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from semco.cli.main import app
from semco.cli.settings import allowed_values, meaning
from semco.config import Config, configure
from semco.errors import UserError
from semco.methods import Method
from semco.methods.semco_plus import FreeMatchThresholds

SECTIONS = {name: type(values) for name, values in Config()} | {"method": Method.registry["semco_plus"].Config}
EVERYTHING = {**SECTIONS, **{name: each.Config for name, each in Method.registry.items()}}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "number", "minimum": 0, "maximum": 1.0}, "a number from 0 to 1"),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "a number above 0 below 1"),
        ({"type": "integer", "minimum": 1}, "a whole number from 1"),
        ({"type": "boolean"}, "true or false"),
        ({"type": "string", "enum": ["both", "discard"]}, "both, discard"),
        ({"anyOf": [{"type": "number"}, {"const": "auto", "type": "string"}]}, "a number or auto"),
        ({"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}, "a list: [a, b] or null"),
    ],
)
def test_words(schema: dict[str, Any], words: str) -> None:
    assert allowed_values(schema) == words


@pytest.mark.parametrize("name", sorted(EVERYTHING))
def test_every_field_has_a_meaning(name: str) -> None:
    for field in EVERYTHING[name].model_fields:
        text = meaning(EVERYTHING[name], field)
        assert text == " ".join(text.split())
        assert text.endswith(".")


def test_a_field_with_a_new_default_keeps_its_description() -> None:
    assert "the square of the mean confidence" in meaning(FreeMatchThresholds, "weight")


def test_what_is_shown_can_be_set() -> None:
    shown = CliRunner().invoke(app, ["settings"]).output
    lines = [line.split("  ")[0] for line in shown.splitlines() if not line.startswith(" ") and "=" in line]
    assert len(lines) == sum(len(each.model_fields) for each in SECTIONS.values()) - 1  # but for the method's name
    assert configure(settings=lines) == configure(options={"method": "semco_plus"})


def test_one_section() -> None:
    shown = CliRunner().invoke(app, ["settings", "augment"]).output
    assert [line.split("=")[0] for line in shown.splitlines() if line.startswith("augment.")] == [
        f"augment.{field}" for field in SECTIONS["augment"].model_fields
    ]
    assert "training." not in shown


@pytest.mark.parametrize("name", ["training.steps", "method.thresholds.tau_e"])
def test_one_field(name: str) -> None:
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["settings", name]).output
    section, field, *_ = name.split(".")
    fields = [line for line in shown.splitlines() if line.startswith(f"{section}.")]
    assert [line.split("=")[0].removesuffix(".rule") for line in fields] == [f"{section}.{field}"]
    assert f"{name}=" in shown


def test_an_unknown_field_is_named() -> None:
    done = CliRunner().invoke(app, ["settings", "training.stepz"])
    assert str(done.exception).startswith("unknown field of training 'stepz'; did you mean 'steps'?")


def test_a_methods_fields() -> None:
    shown = CliRunner().invoke(app, ["methods", "semco"]).output
    assert "method.tau_e=0.7  a number from 0 to 1" in shown
    assert "method.name" not in shown


def test_the_fields_of_each_threshold_rule_are_shown() -> None:
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["methods", "semco_plus"]).output
    assert "method.thresholds.rule=freematch  fixed, freematch" in shown
    assert "method.thresholds.tau_e=0.9  a number from 0 to 1 (with rule fixed)" in shown
    assert "method.thresholds.weight=confidence  confidence, one (with rule freematch)" in shown


def test_an_unknown_section() -> None:
    raised = CliRunner().invoke(app, ["settings", "trianing"]).exception
    assert isinstance(raised, UserError)
    assert "trianing" in str(raised)
    assert "training" in str(raised)
