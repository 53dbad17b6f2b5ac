"""All measurements in one go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import everything
from benchmarks.__main__ import app
from benchmarks.everything import GROWTH, MEASUREMENTS, measure_everything
from benchmarks.rows import Row
from semco.errors import UserError

ROWS = [{"size": 10, "cpu_s": 0.1, "memory_mb": 5.0, "time_exponent": None, "memory_exponent": None}]
ROWS.append({"size": 20, "cpu_s": 0.4, "memory_mb": 9.0, "time_exponent": 2.0, "memory_exponent": 0.85})
AXIS = {"title": "step: classes", "rows": ROWS, "fixed_s": 0.001, "s_per_unit": 2e-6, "unit": "class"}


def fake(name: str, _: Sequence[str]) -> Any:
    if name == "labels":
        raise UserError("gensim is missing.")
    return {"axes": {"classes": AXIS}} if name == GROWTH else [Row(name, "CPU s", 1.0).to_json()]


def test_one_failure_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(everything, "run_command", fake)
    measured = measure_everything((), tmp_path / "growth.png", lambda _: None)
    assert [row.what for row in measured.rows] == [name for name in MEASUREMENTS if name not in ("labels", GROWTH)]
    assert measured.failures == ["gensim is missing."]
    assert (tmp_path / "growth.png").stat().st_size > 0
    for text in ("| start ", "1 ms + 2 us per class", "2.0, 0.85", "faster than linearly", "gensim is missing."):
        assert text in measured.text()


def test_some_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everything, "run_command", fake)
    assert [row.what for row in measure_everything(["step"], None, lambda _: None).rows] == ["step"]
    with pytest.raises(UserError, match="no measurement 'steps'; choose among start, "):
        measure_everything(["steps"], None, lambda _: None)


def test_every_measurement_is_a_command() -> None:
    commands = {each.name or each.callback.__name__ for each in app.registered_commands if each.callback}
    assert {(arguments or (name,))[0] for name, arguments in MEASUREMENTS.items()} <= commands
