"""The measurement of a fit."""

from __future__ import annotations

from benchmarks.fitted import RandomPhotos, bench_fitted


def test_a_small_fit_is_measured() -> None:
    found = bench_fitted(pool=60, classes=3, labels=2, features=8)
    assert found["photos_read"] == 60
    assert min(found["fit_cpu_s"], found["memory_mb"]) > 0
    assert len(RandomPhotos(5, 8)) == 5
