"""`python -m benchmarks data` on a few images: the figures are there and fit together."""

from __future__ import annotations

import pytest
import torch

from benchmarks import data
from benchmarks.data import bench_data, time_batches


@pytest.mark.usefixtures("forked_processes")
def test_the_figures_fit_together() -> None:
    result = bench_data(images=40, entries=500, files=20, repeats=1, steps=2)
    assert result["cold_times_plain"] == pytest.approx(result["cold_per_s"] / result["plain_per_s"], rel=0.05)
    assert result["warm_times_plain"] == pytest.approx(
        64 * result["cache_rows_per_s"] / result["plain_per_s"], rel=0.05, abs=1
    )
    assert result["cache_mb"] == round(40 * 3 * 96 * 96 / 1e6)
    assert (result["entries"], result["files"]) == (502, 20)


def test_the_ratio_is_the_median_of_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn times rows from the file and from memory, then whole batches from both."""
    seconds = iter([4.0, 1.0, 2.0, 1.0, 2.0, 1.0, 10.0, 9.0, 8.0, 1.0, 10.0, 8.0])
    monkeypatch.setattr(data, "_seconds", lambda _: next(seconds))
    images = torch.zeros(20, 3, 8, 8, dtype=torch.uint8)
    assert time_batches(images, images, steps=80, repeats=3) == {
        "cache_rows_per_s": 20,  # of 20, 40, 10
        "memory_rows_per_s": 80,
        "cache_rows_of_memory": 0.25,  # of 1/4, 1/2, 1/8
        "cache_batches_per_s": 8,  # of 40, 8, 8
        "memory_batches_per_s": 10,  # of 80, 8.9, 10
        "cache_batches_of_memory": 0.8,  # of 1/2, 0.9, 0.8
    }
