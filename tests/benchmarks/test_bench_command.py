"""``python -m benchmarks`` prints JSON or tables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app

VARIANT = {
    "cpu_s": 4.0,
    "times_faster": 2.0,
    "median_wall_s": 3.0,
    "times_faster_median": 1.5,
    "memory_mb": 900.0,
    "memory_ratio": 0.4,
    "share_of_peak": 0.75,
}
STEP: dict[str, Any] = {
    "variants": {"authors": VARIANT},
    "methods": {"100": {"fixmatch_cpu_s": 4.0, "semco_plus_cpu_s": 4.2, "extra_percent": 5.0}},
    "profile": {"parts_ms": {"network": 99.0}, "parts_percent": {"network": 99.0}, "other_percent": 1.0},
}
ROW = {"size": 20, "cpu_s": 0.1, "memory_mb": 100.0, "time_exponent": 1.5, "memory_exponent": None}
SCALE = {"axes": {"classes": {"title": "classes", "rows": [ROW]}}}
AUGMENT = {"ours_us": {"weak": 5.0}, "pillow_us": {"weak": 60.0}, "ratio": {"weak": 12.0}}
AUGMENT["share_of_copying"] = {"weak": 0.0123}
LABELS = {"store": {"terms": 1000, "open_ms": 0.1234567}}
TUNE = {
    "steps": {
        mode: {"cpu_s": 3.0, "times_faster": 4.5, "median_wall_s": 2.0, "times_faster_median": 4.0, "memory_mb": 900.0}
        for mode in ("all", "top", "heads")
    },
    "frozen": {"top": {"ms_per_view": 17.25, "bytes": 100}, "heads": {"ms_per_view": 21.5, "bytes": 10}},
}
ENGINES = {"engines": {"onnx": {"ms_per_image": 1.0, "share_of_peak": 0.456}}}
PREDICT = {"ways": {"plain loop": {"cpu_ms_per_photo": 40.0, "share_of_limit": 0.321}}}
RESULTS = {"augment": AUGMENT, "step": STEP, "scale": SCALE, "labels": LABELS, "tune": TUNE}
RESULTS |= {"engines": ENGINES, "predict": PREDICT}
EXPECTED = {
    "augment": ["us per image", "weak", "12.0", "0.0123"],
    "engines": ["onnx", "0.456"],
    "predict": ["plain loop", "0.321"],
    "step": ["SemCo+", "authors", "0.75", "everything except the network: 1.0 %"],
    "scale": ["classes", "100.0", "time grows faster than linearly up to classes = 20"],
    "labels": ["store: open ms", "0.123"],
    "tune": ["heads", "4.5", "17.25", "than a step that trains all layers"],
}


@pytest.fixture(params=list(RESULTS))
def command(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a command whose measurement returns a fixed result."""
    name: str = request.param
    monkeypatch.setattr(f"benchmarks.{name}.bench_{name}", lambda *_, **__: RESULTS[name])
    monkeypatch.setenv("COLUMNS", "200")
    return name


def test_json_holds_the_whole_result(command: str) -> None:
    assert json.loads(CliRunner().invoke(app, [command, "--json"]).stdout) == RESULTS[command]


def test_the_tables_hold_the_numbers(command: str) -> None:
    result = CliRunner().invoke(app, [command])
    assert result.exit_code == 0
    for text in EXPECTED[command]:
        assert text in result.stdout
