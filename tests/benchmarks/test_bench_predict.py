"""The measurement of predictions, which checks that all ways agree; operations are counted."""

from __future__ import annotations

import pytest
import torch

from benchmarks.peak import count_gflop, measure_peak
from benchmarks.predict import EXPORTED, PLAIN, bench_predict


def test_every_way_is_measured() -> None:
    rows = bench_predict("wrn-10-1", size=32, photos=3, repeats=1)
    assert [row.what.rpartition(" by ")[2] for row in rows] == [PLAIN, "semco predict (torch)", EXPORTED]
    assert [row.alternative for row in rows] == [None, rows[0].best, rows[0].best]
    assert {row.limit for row in rows} == {rows[0].limit}
    assert all(row.share for row in rows)


def test_a_product_is_counted_and_the_machine_has_limits() -> None:
    assert count_gflop(lambda: torch.ones(100, 200) @ torch.ones(200, 50)) == pytest.approx(2e-3)
    assert measure_peak().gflops > 0.1
    assert measure_peak().copied_gb > 0.01
