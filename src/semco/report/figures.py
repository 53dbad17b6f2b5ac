"""Figures as SVG text that takes its colours and font from the surrounding page.

Lines and texts are drawn in placeholder colours, which are replaced by CSS variables in the SVG, so that one figure
works on the light and on the dark page. matplotlib's settings are changed only while a figure is drawn.

Shapes: K classes.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    """One curve. ``colour`` is a number from 0; eight colours repeat. ``band`` holds its lower and upper edge."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int = 0
    is_dashed: bool = False
    is_faint: bool = False
    has_points: bool = False
    band: tuple[Sequence[float], Sequence[float]] | None = None

    @property
    def css_variable(self) -> str:
        """The CSS variable of the colour, for the legend."""
        return f"--c{self.colour % len(SERIES) + 1}"


@dataclass(frozen=True)
class Theme:
    """The colours of a figure, and the settings in which it differs from one on a page."""

    ink: str
    grid: str
    series: tuple[str, ...]
    more: Mapping[str, Any] = field(default_factory=dict)

    def style(self) -> dict[Any, Any]:
        names = {INK: self.ink, GRID: self.grid}
        style = {key: names.get(value, value) if isinstance(value, str) else value for key, value in _STYLE.items()}
        return style | dict(self.more)


# On a page the colours come from its style sheet. In files they are those of Okabe and Ito, which people with any kind
# of colour blindness can tell apart; line styles make figures readable in grey. Files have the width of a column, a
# font like Times, and the fonts in the PDF are TrueType, which publishers ask for.
PAGE = Theme(INK, GRID, SERIES)
FILE = Theme(
    "#333333",
    "#dddddd",
    ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8b0000", "#000000"),
    {"font.family": ["STIXGeneral", "DejaVu Sans"], "font.size": 8, "pdf.fonttype": 42, "legend.fontsize": 8},
)
FILE_SIZE = (3.25, 2.1)  # inches; the width of a column of CVPR's template


@dataclass(frozen=True)
class LineFigure:
    """A figure of curves: a table of numbers that can be drawn for a page or into a file.

    ``markers`` are single points such as the test accuracy at the end. The y axis of percentages is 0 to 100, or the
    range of the values with ``fit_y``.
    """

    lines: Sequence[Line]
    description: str
    percent: bool = False
    markers: Sequence[Line] = ()
    x_label: str = "training step"
    fit_y: bool = False

    def draw(self, theme: Theme = PAGE) -> Figure:
        """Return the drawn figure; in a file it has a legend, and the y axis says what it shows."""
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context(theme.style()):
            if theme is PAGE:
                # With fixed margins, charts side by side are aligned, and drawing takes half as long.
                figure = Figure(figsize=(5.4, 2.7))
                axes = figure.add_axes((0.095, 0.18, 0.88, 0.79))
            else:
                figure = Figure(figsize=FILE_SIZE, layout="constrained")
                axes = figure.add_subplot()
            for line in self.lines:
                _draw(axes, line, theme)
            for marker in self.markers:
                axes.plot(marker.x, marker.y, "D", markersize=6, color=_colour(marker, theme), zorder=5)
            axes.set_xlabel(self.x_label)
            _set_scales(axes, self.percent, self.fit_y)
            if theme is not PAGE:
                self._explain(figure)
            return figure

    def _explain(self, figure: Figure) -> None:
        """Label the y axis with the description, without the name before its colon, and add a legend below."""
        figure.axes[0].set_ylabel(
            textwrap.fill(self.description.rpartition(": ")[2], 30, break_on_hyphens=False), parse_math=False
        )
        names = [line.label for line in self.lines if not line.is_faint]
        if len(names) > 1:
            columns = 2 if max(map(len, names)) <= 24 else 1
            figure.legend(loc="outside lower center", ncols=columns, frameon=False, borderpad=0, columnspacing=1)

    def svg(self) -> str:
        """Return the figure for a page."""
        import matplotlib

        with matplotlib.rc_context(_STYLE):
            return _to_svg(self.draw(), self.description)

    def save(self, stem: Path, formats: Sequence[str] = ("png", "pdf", "svg")) -> list[Path]:
        """Write the figure, fit for a column of a paper, as STEM.png, STEM.pdf and STEM.svg."""
        import matplotlib

        with matplotlib.rc_context(FILE.style()), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure = self.draw(FILE)
            return [_save(figure, stem.with_name(f"{stem.name}.{each}"), self.description) for each in formats]


def _save(figure: Figure, file: Path, title: str) -> Path:
    with atomic_path(file) as temporary:
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(file.suffix[1:], {})
        figure.savefig(temporary, format=file.suffix[1:], dpi=300, metadata={"Title": title, **dates})
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
    width = 1.8 if theme is PAGE else 1.2
    if line.band is not None:
        axes.fill_between(line.x, *line.band, color=_colour(line, theme), alpha=0.18, linewidth=0)
    axes.plot(
        line.x,
        line.y,
        color=_colour(line, theme),
        linestyle="--" if line.is_dashed else "-",
        alpha=0.35 if line.is_faint else 1.0,
        linewidth=0.6 * width if line.is_faint else width,
        marker="o" if line.has_points or len(line.x) == 1 else "",
        markersize=1.7 * width,
        label="_nolegend_" if line.is_faint else line.label,
    )


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
