"""Figures as SVG text that takes its colours and its font from the page it stands in.

Lines and texts are drawn in marker colours, which become CSS variables in the SVG: one figure serves the light
and the dark page. matplotlib's settings are changed only while a figure is drawn.

Shapes: K classes.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

_SVG = "http://www.w3.org/2000/svg"
ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
# Marker colour -> CSS variable. The markers are colours nobody would draw with.
INK, GRID = "#010203", "#010204"
SERIES = tuple(f"#01020{n}" for n in "56789abc")
_VARIABLES = {INK: "var(--ink-2)", GRID: "var(--line)"}
_VARIABLES |= {colour: f"var(--c{i})" for i, colour in enumerate(SERIES, start=1)}
HEAT = (0.22, 0.47, 0.87)  # a blue that reads on white and on black; its opacity is the value
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: the browser's font, selectable, and it can be searched
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
}


@dataclass(frozen=True)
class Line:
    """One curve. ``colour`` counts from 0 and starts over after eight."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int = 0
    dashed: bool = False
    faint: bool = False
    points: bool = False

    @property
    def variable(self) -> str:
        """The page's name of the colour, for the legend."""
        return f"--c{self.colour % len(SERIES) + 1}"


def line_chart(
    lines: Sequence[Line],
    name: str,
    percent: bool = False,
    marks: Sequence[Line] = (),
    over: str = "training step",
    near: bool = False,
) -> str:
    """Curves over what ``over`` says; ``marks`` are single points such as the test accuracy at the end.

    Percentages are shown from 0 to 100, or from so ``near`` that curves which lie close can be told apart.
    """
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(5.4, 2.7))
        # Fixed margins: charts side by side line up, and drawing takes half the time of a layout engine's.
        axes = figure.add_axes((0.095, 0.18, 0.895, 0.79))
        for line in lines:
            _draw(axes, line)
        for mark in marks:
            axes.plot(mark.x, mark.y, "D", markersize=6, color=_colour(mark), zorder=5)
        _scales(axes, percent, over, near)
        return _svg(figure, name)


def _colour(line: Line) -> str:
    return SERIES[line.colour % len(SERIES)]


def _draw(axes: Axes, line: Line) -> None:
    axes.plot(
        line.x,
        line.y,
        color=_colour(line),
        linestyle="--" if line.dashed else "-",
        alpha=0.35 if line.faint else 1.0,
        linewidth=1.0 if line.faint else 1.8,
        marker="o" if line.points or len(line.x) == 1 else "",
        markersize=3,
    )


def _scales(axes: Axes, percent: bool, over: str, near: bool) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlim(left=0)  # so that charts side by side share their axis
    axes.set_xlabel(over)
    axes.grid(visible=False, axis="x")
    if percent:
        if near:
            axes.yaxis.set_major_locator(MaxNLocator(5))
        else:
            axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.yaxis.set_major_locator(MaxNLocator(5))


def confusion_chart(confusion: NDArray[np.integer], names: Sequence[str], groups: Sequence[int], name: str) -> str:
    """Rows are true classes, columns predicted ones, in parts of a row; a group's classes stand side by side.

    A frame marks each group of more than one class: mistakes inside it are mistakes between near meanings.
    """
    order = sorted(range(len(names)), key=lambda k: (groups[k], k))
    counts = np.asarray(confusion)[np.ix_(order, order)].astype(float)  # (K, K)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    with matplotlib.rc_context(_STYLE | {"axes.grid": False, "axes.spines.bottom": False}):
        side = 5.6 if len(names) <= 12 else 7.2
        figure = Figure(figsize=(side, side), layout="constrained")
        axes = figure.add_subplot()
        heat = np.concatenate([np.broadcast_to(HEAT, (*shares.shape, 3)), shares[..., None]], axis=-1)
        axes.imshow(heat, interpolation="none")
        _name_classes(axes, [names[k] for k in order])
        _frame_groups(axes, [groups[k] for k in order])
        if len(names) <= 20:
            _write_cells(axes, shares)
        return _svg(figure, name)


def _name_classes(axes: Axes, names: Sequence[str]) -> None:
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if len(names) > 40:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    size = 9 if len(names) <= 20 else 6.5
    short = [name if len(name) <= 20 else f"{name[:19]}…" for name in names]
    places = range(len(names))
    plain: dict[str, Any] = {"fontsize": size, "parse_math": False}  # a class may be called "$5 note"
    axes.set_xticks(places, short, rotation=45, ha="right", rotation_mode="anchor", **plain)
    axes.set_yticks(places, short, **plain)


def _frame_groups(axes: Axes, groups: Sequence[int]) -> None:
    for group in sorted(set(groups)):
        size = list(groups).count(group)
        start = list(groups).index(group) - 0.5
        if size > 1:
            frame = Rectangle((start, start), size, size, fill=False, edgecolor=INK, linewidth=1.0)
            frame.set_clip_on(False)
            axes.add_patch(frame)


def _write_cells(axes: Axes, shares: NDArray[np.floating]) -> None:
    for (row, column), share in np.ndenumerate(shares):
        if share >= 0.005:
            colour = "white" if share > 0.6 else INK
            axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=8, color=colour)


def _svg(figure: Figure, name: str) -> str:
    """The figure as an ``<svg>`` element; ``name`` describes it and keeps its ids apart from others'."""
    buffer = StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}), warnings.catch_warnings():
        # The browser draws the letters; that matplotlib's own font lacks some of them does not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator")))
    return _fit_page(ElementTree.fromstring(buffer.getvalue()), name)


def _fit_page(svg: Element, name: str) -> str:
    """Leave size, font and colours to the page."""
    for size in ("width", "height"):
        svg.attrib.pop(size, None)
    svg.attrib |= {"role": "img", "aria-label": name}
    for parent in list(svg.iter()):
        for child in [c for c in parent if c.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style")]:
            parent.remove(child)
        # Other ids ("axes_1", "text_3") repeat in every figure, and nothing refers to them.
        if not re.fullmatch(r"[a-z][0-9a-f]{10}", parent.get("id", "")):
            parent.attrib.pop("id", None)
        if "style" in parent.attrib:
            parent.set("style", _themed(parent.attrib["style"]))
    return ElementTree.tostring(svg, encoding="unicode")


def _themed(style: str) -> str:
    style = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", style)
    style = re.sub(r"font-family: [^;]*;?", "", style)
    for marker, variable in _VARIABLES.items():
        style = style.replace(marker, variable)
    return style
