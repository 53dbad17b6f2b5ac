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
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from semco.files import atomic_path

if TYPE_CHECKING:  # matplotlib takes half a second to import; it is imported when a figure is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


@dataclass(frozen=True)
class Theme:
    """The colours of a figure."""

    ink: str
    grid: str
    series: tuple[str, ...]

    def style(self) -> dict[Any, Any]:
        names = {INK: self.ink, GRID: self.grid}
        return {key: names.get(value, value) if isinstance(value, str) else value for key, value in _STYLE.items()}


# On a page the colours come from its style sheet. In files they are those of Okabe and Ito, which people with any kind
# of colour blindness can tell apart; line styles and names at the ends of lines make figures readable in grey.
PAGE = Theme(INK, GRID, SERIES)
FILE = Theme(
    "#333333", "#dddddd", ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8b0000", "#000000")
)


@dataclass(frozen=True)
class LineFigure:
    """A figure of curves: a table of numbers that can be drawn for a page or into a file.

    ``markers`` are single points such as the test accuracy at the end. The y axis of percentages is 0 to 100, or the
    range of the values with ``fit_y``. With ``has_names`` the name of each curve stands at its end.
    """

    lines: Sequence[Line]
    description: str
    percent: bool = False
    markers: Sequence[Line] = ()
    x_label: str = "training step"
    fit_y: bool = False
    has_names: bool = False

    def draw(self, theme: Theme = PAGE) -> Figure:
        """Return the drawn figure."""
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context(theme.style()):
            figure = Figure(figsize=(5.4, 2.7))
            # With fixed margins, charts side by side are aligned, and drawing is twice as fast as with a layout engine.
            axes = figure.add_axes((0.095, 0.18, 0.66 if self.has_names else 0.895, 0.79))
            for line in self.lines:
                _draw(axes, line, theme)
            for marker in self.markers:
                axes.plot(marker.x, marker.y, "D", markersize=6, color=_colour(marker, theme), zorder=5)
            axes.set_xlabel(self.x_label)
            _set_scales(axes, self.percent, self.fit_y)
            if self.has_names:
                _write_names(axes, self.lines, theme)
            return figure

    def svg(self) -> str:
        """Return the figure for a page."""
        import matplotlib

        with matplotlib.rc_context(_STYLE):
            return _to_svg(self.draw(), self.description)

    def save(self, stem: Path, formats: Sequence[str] = ("png", "pdf", "svg")) -> list[Path]:
        """Write the figure, with its title and a legend, as STEM.png, STEM.pdf and STEM.svg."""
        import matplotlib

        with matplotlib.rc_context(FILE.style()), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure = self.draw(FILE)
            figure.suptitle(self.description, fontsize=9, y=1.08)  # above the name of a curve that ends at the top
            if not self.has_names and len(self.lines) > 1:  # below the axis, where it covers no curve
                figure.axes[0].legend(
                    loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2, borderaxespad=0, fontsize=8, frameon=False
                )
            return [_save(figure, stem.with_name(f"{stem.name}.{each}")) for each in formats]


def _save(figure: Figure, file: Path) -> Path:
    with atomic_path(file) as temporary:
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(file.suffix[1:])
        figure.savefig(temporary, format=file.suffix[1:], dpi=200, bbox_inches="tight", metadata=dates)
    return file


def line_chart(
    lines: Sequence[Line],
    description: str,
    percent: bool = False,
    markers: Sequence[Line] = (),
    x_label: str = "training step",
    fit_y: bool = False,
) -> str:
    """Return a `LineFigure` as SVG."""
    return LineFigure(lines, description, percent, markers, x_label, fit_y).svg()


def _colour(line: Line, theme: Theme) -> str:
    return theme.series[line.colour % len(theme.series)]


def _draw(axes: Axes, line: Line, theme: Theme) -> None:
    axes.plot(
        line.x,
        line.y,
        color=_colour(line, theme),
        linestyle="--" if line.is_dashed else "-",
        alpha=0.35 if line.is_faint else 1.0,
        linewidth=1.0 if line.is_faint else 1.8,
        marker="o" if line.has_points or len(line.x) == 1 else "",
        markersize=3,
        label="_nolegend_" if line.is_faint else line.label,
    )


def _write_names(axes: Axes, lines: Sequence[Line], theme: Theme) -> None:
    """Write the name of each curve beside its end; names that would overlap are moved apart."""
    named = sorted((line for line in lines if line.x and not line.is_faint), key=lambda line: line.y[-1])
    low, high = axes.get_ylim()
    places = move_apart([line.y[-1] for line in named], 0.085 * (high - low), high)
    for line, place in zip(named, places, strict=True):
        axes.annotate(
            line.label if len(line.label) <= 22 else f"{line.label[:21]}…",
            (1.02, (place - low) / (high - low)),
            xycoords="axes fraction",
            color=_colour(line, theme),
            fontsize=8,
            va="center",
            annotation_clip=False,
            parse_math=False,
        )


def move_apart(values: Sequence[float], gap: float, highest: float) -> list[float]:
    """Return ascending values at least ``gap`` apart and at most ``highest``, each moved no further than needed."""
    places: list[float] = []
    for value in values:
        places.append(max(value, places[-1] + gap) if places else value)
    limit = highest
    for i in reversed(range(len(places))):
        places[i] = min(places[i], limit)
        limit = places[i] - gap
    return places


def _set_scales(axes: Axes, percent: bool, fit_y: bool) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=axes.get_xlim()[1] > 2))  # steps, unless it is a confidence
    axes.set_xlim(left=0)  # the same start in charts side by side
    axes.grid(visible=False, axis="x")
    if percent:
        if fit_y:
            top = axes.get_ylim()[1]
            axes.set_ylim(bottom=max(axes.get_ylim()[0], -0.02 * top))  # no percentage is below 0
            axes.yaxis.set_major_locator(MaxNLocator(5))
        else:
            axes.set_ylim(-0.02, 1.02)
        low, high = axes.get_ylim()
        decimals = 0 if high - low > 0.05 else 1  # so that no two of about five ticks have the same text
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=decimals, symbol=" %"))
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.yaxis.set_major_locator(MaxNLocator(5))


def confusion_chart(
    confusion: NDArray[np.integer], names: Sequence[str], group_ids: Sequence[int], description: str
) -> str:
    """Return a confusion matrix (K, K) as SVG: rows are true classes, columns predicted ones, in fractions of a row.

    Classes are ordered by group, and a frame marks each group of more than one class.
    """
    import matplotlib
    from matplotlib.figure import Figure

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
    from matplotlib.patches import Rectangle

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
    import matplotlib

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
