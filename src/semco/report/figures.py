"""Figures as SVG text that takes its colours and font from the surrounding page.

Lines and texts are drawn in placeholder colours, which are replaced by CSS variables in the SVG, so that one figure
works on the light and on the dark page. matplotlib's settings are changed only while a figure is drawn.

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
# Placeholder colour -> CSS variable. The placeholders are colours that no figure uses otherwise.
INK, GRID = "#010203", "#010204"
SERIES = tuple(f"#01020{n}" for n in "56789abc")
_VARIABLES = {INK: "var(--ink-2)", GRID: "var(--line)"}
_VARIABLES |= {colour: f"var(--c{i})" for i, colour in enumerate(SERIES, start=1)}
HEAT = (0.22, 0.47, 0.87)  # a blue that is visible on white and on black; the opacity is the value
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # keep text as text: in the browser's font, selectable, searchable
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
    """One curve. ``colour`` is a number from 0; eight colours repeat."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int = 0
    is_dashed: bool = False
    is_faint: bool = False
    has_points: bool = False

    @property
    def css_variable(self) -> str:
        """The CSS variable of the colour, for the legend."""
        return f"--c{self.colour % len(SERIES) + 1}"


def line_chart(
    lines: Sequence[Line],
    description: str,
    percent: bool = False,
    markers: Sequence[Line] = (),
    x_label: str = "training step",
    fit_y: bool = False,
) -> str:
    """Return curves as SVG; ``markers`` are single points such as the test accuracy at the end.

    The y axis of percentages is 0 to 100, or the range of the values with ``fit_y``.
    """
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(5.4, 2.7))
        # With fixed margins, charts side by side are aligned, and drawing is twice as fast as with a layout engine.
        axes = figure.add_axes((0.095, 0.18, 0.895, 0.79))
        for line in lines:
            _draw(axes, line)
        for marker in markers:
            axes.plot(marker.x, marker.y, "D", markersize=6, color=_colour(marker), zorder=5)
        axes.set_xlabel(x_label)
        _set_scales(axes, percent, fit_y)
        return _to_svg(figure, description)


def _colour(line: Line) -> str:
    return SERIES[line.colour % len(SERIES)]


def _draw(axes: Axes, line: Line) -> None:
    axes.plot(
        line.x,
        line.y,
        color=_colour(line),
        linestyle="--" if line.is_dashed else "-",
        alpha=0.35 if line.is_faint else 1.0,
        linewidth=1.0 if line.is_faint else 1.8,
        marker="o" if line.has_points or len(line.x) == 1 else "",
        markersize=3,
    )


def _set_scales(axes: Axes, percent: bool, fit_y: bool) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlim(left=0)  # the same start in charts side by side
    axes.grid(visible=False, axis="x")
    if percent:
        if fit_y:
            axes.yaxis.set_major_locator(MaxNLocator(5))
        else:
            axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.yaxis.set_major_locator(MaxNLocator(5))


def confusion_chart(
    confusion: NDArray[np.integer], names: Sequence[str], group_ids: Sequence[int], description: str
) -> str:
    """Return a confusion matrix (K, K) as SVG: rows are true classes, columns predicted ones, in fractions of a row.

    Classes are ordered by group, and a frame marks each group of more than one class.
    """
    order = sorted(range(len(names)), key=lambda k: (group_ids[k], k))
    counts = np.asarray(confusion)[np.ix_(order, order)].astype(float)  # (K, K)
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    with matplotlib.rc_context(_STYLE | {"axes.grid": False, "axes.spines.bottom": False}):
        side = 5.6 if len(names) <= 12 else 7.2
        figure = Figure(figsize=(side, side), layout="constrained")
        axes = figure.add_subplot()
        heat = np.concatenate([np.broadcast_to(HEAT, (*fractions.shape, 3)), fractions[..., None]], axis=-1)
        axes.imshow(heat, interpolation="none")
        _label_classes(axes, [names[k] for k in order])
        _frame_groups(axes, [group_ids[k] for k in order])
        if len(names) <= 20:
            _write_percentages(axes, fractions)
        return _to_svg(figure, description)


def _label_classes(axes: Axes, names: Sequence[str]) -> None:
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if len(names) > 40:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    size = 9 if len(names) <= 20 else 6.5
    short = [name if len(name) <= 20 else f"{name[:19]}…" for name in names]
    positions = range(len(names))
    style: dict[str, Any] = {"fontsize": size, "parse_math": False}  # a class may be called "$5 note"
    axes.set_xticks(positions, short, rotation=45, ha="right", rotation_mode="anchor", **style)
    axes.set_yticks(positions, short, **style)


def _frame_groups(axes: Axes, group_ids: Sequence[int]) -> None:
    """Draw a frame around each group of several classes; ``group_ids`` (K,) are sorted."""
    for group_id in sorted(set(group_ids)):
        size = list(group_ids).count(group_id)
        start = list(group_ids).index(group_id) - 0.5
        if size > 1:
            frame = Rectangle((start, start), size, size, fill=False, edgecolor=INK, linewidth=1.0)
            frame.set_clip_on(False)
            axes.add_patch(frame)


def _write_percentages(axes: Axes, fractions: NDArray[np.floating]) -> None:
    for (row, column), fraction in np.ndenumerate(fractions):
        if fraction >= 0.005:
            colour = "white" if fraction > 0.6 else INK
            axes.text(column, row, f"{100 * fraction:.0f}", ha="center", va="center", fontsize=8, color=colour)


def _to_svg(figure: Figure, description: str) -> str:
    """Return the figure as an ``<svg>`` element; its ids are made from ``description``, to be unique on a page."""
    buffer = StringIO()
    with matplotlib.rc_context({"svg.hashsalt": description}), warnings.catch_warnings():
        # The browser draws the text, so it does not matter which characters matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator")))
    return _adapt_to_page(ElementTree.fromstring(buffer.getvalue()), description)


def _adapt_to_page(svg: Element, description: str) -> str:
    """Return the SVG with size, font and colours left to the page."""
    for size in ("width", "height"):
        svg.attrib.pop(size, None)
    svg.attrib |= {"role": "img", "aria-label": description}
    for parent in list(svg.iter()):
        for child in [c for c in parent if c.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style")]:
            parent.remove(child)
        # Other ids ("axes_1", "text_3") are the same in every figure, and nothing refers to them.
        if not re.fullmatch(r"[a-z][0-9a-f]{10}", parent.get("id", "")):
            parent.attrib.pop("id", None)
        if "style" in parent.attrib:
            parent.set("style", _use_page_colours(parent.attrib["style"]))
    return ElementTree.tostring(svg, encoding="unicode")


def _use_page_colours(style: str) -> str:
    style = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", style)
    style = re.sub(r"font-family: [^;]*;?", "", style)
    for marker, variable in _VARIABLES.items():
        style = style.replace(marker, variable)
    return style
