"""The fields that --set takes, in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from semco.cli.main import app
from semco.cli.options import complete_method, complete_methods, complete_recipes, method_names
from semco.cli.settings import allowed_values, meaning, show_fields
from semco.config import Config, MethodConfig, configure
from semco.errors import UserError
from semco.methods import Method
from semco.methods.semco_plus import FreeMatchThresholds
from semco.models import KNOWN_BACKBONES

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


def test_a_field_without_a_description_is_shown_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    class InTheMaking(MethodConfig):
        name: str = "in_the_making"
        lambda_u: float = 10.0

    show_fields("method", InTheMaking)
    assert capsys.readouterr().out == "method.lambda_u=10.0  a number\n"


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


def test_methods_are_those_of_the_registry() -> None:
    assert set(method_names()) == {
        name for name, each in Method.registry.items() if each.__module__.startswith("semco.")
    }


def test_one_method() -> None:
    assert complete_method("fix") == ["fixmatch"]
    assert complete_method("no such") == []


def test_the_last_of_several() -> None:
    assert complete_methods("fixmatch,free") == ["fixmatch,freematch"]
    assert complete_recipes("cifar100-2500-mu3,semco_p") == ["cifar100-2500-mu3,semco_plus"]
    assert "paper" in complete_recipes("pap")


def test_the_shell_gets_them_without_torch() -> None:
    words = {"_SEMCO_COMPLETE": "complete_bash", "COMP_WORDS": "semco train --method fix", "COMP_CWORD": "3"}
    lines = ("import sys", "from semco.cli.main import app", "try: app(prog_name='semco')")
    code = "\n".join([*lines, "finally: print('torch' in sys.modules)"])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | words, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["fixmatch", "False"]


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


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["backbones", *arguments], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_all_backbones_are_listed() -> None:
    lines = run("--no-timing").splitlines()
    assert [line.split()[0] for line in lines[1 : len(KNOWN_BACKBONES) + 1]] == list(KNOWN_BACKBONES)
    assert max(map(len, lines)) <= 80
    assert "ms per image" not in lines[0]


def test_one_backbone_as_json() -> None:
    (row,) = json.loads(run("wrn-10-1", "--json"))["backbones"]
    assert row["ms_per_image"] > 0
    del row["ms_per_image"]
    assert row == {
        "name": "wrn-10-1",
        "parameters": 77_200,
        "native_size": None,
        "pretrained": "none",
        "licence": None,
        "timed_size": 32,
    }


def test_weights_are_installed_or_the_table_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semco.models.pretrained.find_spec", lambda _: None)
    assert "install semco[pretrained]" in run("efficientnet-lite0", "--no-timing")
    (row,) = json.loads(run("efficientnet-lite0", "--no-timing", "--json"))["backbones"]
    assert (row["pretrained"], row["licence"], row["native_size"]) == ("not installed", "Apache-2.0", 224)


def test_the_table_shows_the_time_per_image() -> None:
    assert " at 32" in run("wrn-10-1")


def test_an_unknown_backbone_is_one_sentence() -> None:
    result = CliRunner().invoke(app, ["backbones", "resnet81", "--no-timing"])
    assert "did you mean 'resnet18'?" in str(result.exception)
