"""The measurement of engines: all of them are measured; that they compute the same is checked while measuring."""

from __future__ import annotations

from benchmarks.engines import EAGER, bench_engines


def test_every_engine_is_measured() -> None:
    rows = bench_engines("wrn-10-1", size=32, threads=1, repeats=1, images=3)
    names = [
        name for engine in ("openvino", "onnx", "torch") for name in (f"the same by {engine}", f"loading {engine}")
    ]
    assert [row.what for row in rows] == [f"an image of 32 pixels by {EAGER}", *names]
    assert all(row.best > 0 for row in rows)
    assert {row.limit for row in rows if row.unit == "CPU ms"} == {rows[0].limit}
