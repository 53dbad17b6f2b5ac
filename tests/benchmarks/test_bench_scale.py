"""The measurement of growth: rows, exponents and the figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scale import (
    AXES,
    TINY,
    TINY_AXES,
    Axis,
    add_exponents,
    bench_scale,
    describe_line,
    describe_superlinear_growth,
    draw_growth,
    measure,
    with_line,
)
from semco.errors import UserError


def row(size: int, seconds: float, megabytes: float) -> dict[str, float]:
    return {"size": size, "wall_s": seconds, "cpu_s": seconds, "memory_mb": megabytes}


def test_exponents_equal_values_computed_by_hand() -> None:
    first, second, third = add_exponents([row(10, 1.0, 100), row(20, 2.0, 100), row(40, 8.0, 400)], "batch_size")
    assert (first["time_exponent"], first["memory_exponent"]) == (None, None)
    assert (second["time_exponent"], second["memory_exponent"]) == (1.0, 0.0)
    assert (third["time_exponent"], third["memory_exponent"]) == (2.0, 2.0)


def test_exponents_of_the_image_size_refer_to_the_number_of_pixels() -> None:
    rows = add_exponents([row(16, 1.0, 100), row(32, 4.0, 1600)], "image_size")
    assert (rows[1]["time_exponent"], rows[1]["memory_exponent"]) == (1.0, 2.0)


def test_only_superlinear_growth_is_described() -> None:
    rows = add_exponents([row(10, 1.0, 100), row(20, 2.1, 100), row(40, 8.4, 190)], "classes")
    sentences = describe_superlinear_growth({"axes": {"classes": {"title": "classes", "rows": rows}}})
    assert sentences == ["time grows faster than linearly up to classes = 40 (exponent 2.0)."]


@pytest.mark.parametrize(("field", "unit"), [("classes", "class"), ("image_size", "pixel")])
def test_the_line_through_the_times_has_the_constants(field: str, unit: str) -> None:
    sizes = (10, 20, 40)
    rows = [row(n, 0.5 + 0.001 * (n * n if field == "image_size" else n), 100) for n in sizes]
    axis = with_line({"title": field, "rows": rows}, field)
    assert axis["fixed_s"] == pytest.approx(0.5)
    assert axis["s_per_unit"] == pytest.approx(0.001)
    assert describe_line(axis) == f"500 ms + 1 ms per {unit}"


def test_what_does_not_grow_has_no_negative_constant() -> None:
    assert with_line({"rows": [row(10, 1.1, 1), row(100, 1.0, 1)]}, "classes")["s_per_unit"] == 0


def test_an_unknown_axis_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(UserError, match="no axis colours; choose among batch_size, processes"):
        bench_scale(quick=True, axes=["colours"])


def test_the_axes_cover_the_documented_ranges() -> None:
    ends = {axis.field: (axis.sizes[0], axis.sizes[-1]) for axis in AXES}
    assert ends["classes"] == (10, 10_000)
    assert ends["pool"] == (1000, 1_000_000)
    assert ends["processes"] == (1, 2)
    assert set(ends) == {"classes", "pool", "processes", "batch_size", "image_size"}


def test_an_axis_changes_only_its_own_field() -> None:
    axis = Axis("classes", "classes", (7,))
    assert axis.setting(TINY, 7) == replace(TINY, classes=7)
    assert Axis("processes", "processes", (2,)).setting(TINY, 2) == TINY


@pytest.mark.usefixtures("forked_processes")
def test_one_and_two_processes_are_measured() -> None:
    rows = measure(TINY_AXES[-1], TINY, threads=2, repeats=1)
    assert [r["size"] for r in rows] == [1, 2]
    assert all(r["cpu_s"] > 0 and r["memory_mb"] > 0 for r in rows)
    assert rows[-1]["time_exponent"] is not None


def test_the_figure_is_written(tmp_path: Path) -> None:
    rows = add_exponents([row(10, 1.0, 100), row(20, 2.0, 150)], "classes")
    axis = with_line({"title": "step: classes", "rows": rows}, "classes")
    draw_growth({"axes": {"classes": axis}}, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
