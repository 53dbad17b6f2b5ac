"""The measurement of views: its result, not its speed."""

from __future__ import annotations

from benchmarks.augment import PAIR, STRONG, WEAK, bench_augment


def test_all_kinds_of_views_are_measured() -> None:
    rows = bench_augment(size=16, batch=8, repeats=1)
    assert [row.what for row in rows] == [f"{kind}, 16 x 16" for kind in (WEAK, STRONG, PAIR)]
    for row in rows:
        assert row.best > 0
        assert row.alternative is not None
        assert row.alternative > 0
    weak, _, pair = rows
    assert weak.limit is not None
    assert pair.limit is not None
    assert abs(pair.limit / weak.limit - 9 / 5) < 1e-9  # bytes: pixels are read once, floats are written once or twice
