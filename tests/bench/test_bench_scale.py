"""The measurement of growth: rows, powers, and the figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from semco.bench.scale import AXES, TINY, TINY_AXES, Axis, draw, measure, with_growth, worse_than_linear


def row(size: int, seconds: float, megabytes: float) -> dict[str, float]:
    return {"size": size, "wall_s": seconds, "cpu_s": seconds, "memory_mb": megabytes}


def test_powers_by_hand() -> None:
    first, second, third = with_growth([row(10, 1.0, 100), row(20, 2.0, 100), row(40, 8.0, 400)], "batch_size")
    assert (first["time_power"], first["memory_power"]) == (None, None)
    assert (second["time_power"], second["memory_power"]) == (1.0, 0.0)
    assert (third["time_power"], third["memory_power"]) == (2.0, 2.0)


def test_an_image_is_the_square_of_its_side() -> None:
    rows = with_growth([row(16, 1.0, 100), row(32, 4.0, 1600)], "image_size")
    assert (rows[1]["time_power"], rows[1]["memory_power"]) == (1.0, 2.0)


def test_only_what_is_worse_than_linear_is_said() -> None:
    rows = with_growth([row(10, 1.0, 100), row(20, 2.1, 100), row(40, 8.4, 190)], "classes")
    said = worse_than_linear({"axes": {"classes": {"title": "classes", "rows": rows}}})
    assert said == ["time grows as the 2.0 power of classes at 40"]


def test_the_axes_go_as_far_as_promised() -> None:
    ends = {axis.field: (axis.sizes[0], axis.sizes[-1]) for axis in AXES}
    assert ends["classes"] == (10, 10_000)
    assert ends["pool"] == (1000, 1_000_000)
    assert ends["processes"] == (1, 2)
    assert set(ends) == {"classes", "pool", "processes", "batch_size", "image_size"}


def test_an_axis_changes_its_field_alone() -> None:
    axis = Axis("classes", "classes", (7,))
    assert axis.setting(TINY, 7) == replace(TINY, classes=7)
    assert Axis("processes", "processes", (2,)).setting(TINY, 2) == TINY


def test_one_and_two_processes_are_measured() -> None:
    rows = measure(TINY_AXES[-1], TINY, threads=2, repeats=1)
    assert [r["size"] for r in rows] == [1, 2]
    assert all(r["cpu_s"] > 0 and r["memory_mb"] > 0 for r in rows)
    assert rows[-1]["time_power"] is not None


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    rows = with_growth([row(10, 1.0, 100), row(20, 2.0, 150)], "classes")
    draw({"axes": {"classes": {"title": "classes", "rows": rows}}}, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
