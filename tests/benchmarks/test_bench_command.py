"""``python -m benchmarks`` prints JSON or tables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.rows import Row

ROWS = [Row("a step", "CPU s", 4.0, 4.5, 8.0, "another way", 3.0, "products")]
GROWN = {"size": 20, "cpu_s": 0.1, "memory_mb": 100.0, "time_exponent": 1.5, "memory_exponent": 0.5}
FIRST = {"size": 10, "cpu_s": 0.03, "memory_mb": 70.0, "time_exponent": None, "memory_exponent": None}
AXIS = {"title": "step: classes", "rows": [FIRST, GROWN], "fixed_s": 0.005, "s_per_unit": 2.5e-6, "unit": "class"}
SCALE = {"axes": {"classes": AXIS}}
OF_ROWS = ("augment", "engines", "features", "labels", "predict", "serve", "start", "step", "tune")
RESULTS: dict[str, Any] = {**dict.fromkeys(OF_ROWS, ROWS), "scale": SCALE}
OF_SCALE = ["| 30, 100 |", "5 ms + 2.5 us per class", "1.5, 0.5", "faster than linearly up to step: classes = 20"]


@pytest.fixture(params=list(RESULTS))
def command(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a command whose measurement returns a fixed result."""
    name: str = request.param
    monkeypatch.setattr(f"benchmarks.{name}.bench_{name}", lambda *_, **__: RESULTS[name])
    return name


def test_json_holds_the_whole_result(command: str) -> None:
    result = json.loads(CliRunner().invoke(app, [command, "--json"]).stdout)
    assert result == (SCALE if command == "scale" else [row.to_json() for row in ROWS])


def test_the_tables_hold_the_numbers(command: str) -> None:
    result = CliRunner().invoke(app, [command])
    assert result.exit_code == 0
    for text in OF_SCALE if command == "scale" else ["a step", "4.5", "another way", "75%"]:
        assert text in result.stdout
