"""The measurement of views: its result, not its speed."""

from __future__ import annotations

from benchmarks.augment import bench_augment


def test_ratios_match_the_times() -> None:
    result = bench_augment(size=16, batch=8, repeats=1)
    assert (result["size"], result["batch"]) == (16, 8)
    for kind in ("weak", "strong", "pair"):
        ours, pillow = result["ours_us"][kind], result["pillow_us"][kind]
        assert ours > 0
        assert abs(result["ratio"][kind] - pillow / ours) < 0.01
