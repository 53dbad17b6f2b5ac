"""The measurement of predictions: all ways are measured and agree, and operations are counted."""

from __future__ import annotations

import pytest
import torch

from benchmarks.peak import count_gflop, measure_peak
from benchmarks.predict import EXPORTED, PLAIN, bench_predict


def test_every_way_is_measured_and_agrees() -> None:
    result = bench_predict("wrn-10-1", size=32, photos=3, repeats=1)
    assert list(result["ways"]) == [PLAIN, "semco predict (torch)", EXPORTED]
    assert result["ways"][PLAIN]["times_faster"] == 1
    assert result["ways"][PLAIN]["difference"] < 0.05  # it decodes at full size
    assert result["ways"][EXPORTED]["difference"] < 1e-4
    for row in result["ways"].values():
        limit = result["limit_ms_per_photo"] / row["cpu_ms_per_photo"]
        assert row["share_of_limit"] == pytest.approx(limit, rel=0.05)


def test_a_product_is_counted_and_the_machine_has_limits() -> None:
    assert count_gflop(lambda: torch.ones(100, 200) @ torch.ones(200, 50)) == pytest.approx(2e-3)
    assert measure_peak().gflops > 0.1
    assert measure_peak().copied_gb > 0.01
