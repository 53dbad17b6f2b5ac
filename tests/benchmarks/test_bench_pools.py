"""Growth with the pool."""

from __future__ import annotations

import pytest

from benchmarks.pools import bench_pools


def test_a_pool_of_different_paths_is_listed() -> None:
    (row,) = bench_pools([2500])["rows"]
    assert row["size"] == 2500
    assert row["counts_mib"] >= row["index_mib"] >= 0
    # Per image: its order (8 bytes), how often it was seen and retained (3 x 4), and six slots of class and count.
    assert row["counts_mib"] - row["order_mib"] <= 2502 * (12 + 48) / 2**20 + 5
    assert row["all_mib"] == pytest.approx(row["counts_mib"], abs=5)
