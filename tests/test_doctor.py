"""What `semco doctor` finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semco import doctor
from semco.cli.main import app


def test_instruction_sets_are_those_of_the_first_processor(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor : 0\nflags : fpu avx512f avx2 sse\n\nprocessor : 1\nflags : amx_bf16\n")
    assert doctor.instruction_sets(file) == ["avx2", "avx512f"]
    assert doctor.instruction_sets(tmp_path / "missing") == []


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"onnx": ("no_such_module", "export")})
    findings = {each.name: each for each in doctor.examine(with_speed=False)}
    assert findings["extra onnx"].value == "missing: export"
    assert findings["extra onnx"].advice == "pip install 'semco[onnx]'"


def test_little_space_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LITTLE_SPACE", 10**18)
    finding = next(each for each in doctor.examine(with_speed=False) if each.name == "cache")
    assert finding.advice is not None
    assert finding.advice.startswith("free some space")


def test_text_and_json_have_the_same_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SIDE", 32)
    monkeypatch.setattr(doctor, "MATRIX", 16)
    text = CliRunner().invoke(app, ["doctor"]).output
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)["findings"]
    assert [each["name"] for each in found][:3] == ["semco", "python", "libraries"]
    assert all(each["name"] in text for each in found)
    assert any(each["name"] == "speed" and "ms per photo" in each["value"] for each in found)


def test_the_command_alone_says_what_to_do_first() -> None:
    shown = CliRunner().invoke(app, [])
    assert shown.exit_code == 0
    assert "semco studio photos/" in shown.output
    assert len(shown.output.splitlines()) < 12
