"""`semco bench data` on a few images: the figures are there and fit together."""

from __future__ import annotations

import pytest

from semco.bench.data import bench_data


def test_the_figures_fit_together() -> None:
    result = bench_data(images=100, entries=1000, files=20, repeats=1)
    assert result["cold_times_plain"] == pytest.approx(result["cold_per_s"] / result["plain_per_s"], rel=0.05)
    assert result["warm_times_plain"] == pytest.approx(
        64 * result["cache_batches_per_s"] / result["plain_per_s"], rel=0.05, abs=1
    )
    assert result["cache_mb"] == round(100 * 3 * 96 * 96 / 1e6)
    assert (result["entries"], result["files"]) == (1002, 20)
