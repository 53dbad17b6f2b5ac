"""Rows and their table."""

from __future__ import annotations

import json

import pytest

from benchmarks.everything import row_from
from benchmarks.rows import Row, best_and_median, cpu_in_turns, table

WHOLE = Row("a step", "CPU s", 2.0, 3.0, 5.0, "another way", 1.5, "products")


def test_ratios_match_values_computed_by_hand() -> None:
    assert (WHOLE.times_better, WHOLE.share) == (2.5, 0.75)
    assert (Row("help", "s", 1.0).times_better, Row("help", "s", 1.0).share) == (None, None)


def test_the_table_has_every_number_once_and_aligned_columns() -> None:
    lines = table([WHOLE, Row("opening", "CPU us", 1234.4, limit=10, limited_by="copying")]).splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[2] == ["a step", "CPU s", "2", "3", "5", "another way", "2.5", "1.5", "products", "75%"]
    assert cells[3] == ["opening", "CPU us", "1,234", "", "", "", "", "10", "copying", "0.8%"]


def test_a_row_survives_json() -> None:
    assert row_from(json.loads(json.dumps(WHOLE.to_json()))) == WHOLE


def test_the_best_and_the_median_count() -> None:
    assert best_and_median([3.0, 1.0, 2.0, 9.0], 1000) == (1000, 2500)


def test_ways_take_turns() -> None:
    calls: list[str] = []
    found = cpu_in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    assert calls == ["a", "b", "a", "b"]
    assert found["a"][0] == pytest.approx(found["a"][1], abs=0.1)
