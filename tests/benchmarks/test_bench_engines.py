"""The measurement of engines: all of them are measured, and compute the same."""

from __future__ import annotations

from benchmarks.engines import EAGER, bench_engines


def test_every_engine_is_measured_and_computes_the_same() -> None:
    result = bench_engines("wrn-10-1", size=32, threads=1, repeats=1, images=3)["engines"]
    assert list(result) == [EAGER, "openvino", "onnx", "torch"]
    assert result[EAGER]["difference"] == result[EAGER]["load_cpu_s"] == 0
    for row in result.values():
        assert row["ms_per_image"] > 0
        assert row["cpu_ms_per_image"] > 0
        assert row["difference"] < 1e-4
        assert row["share_of_peak"] > 0
