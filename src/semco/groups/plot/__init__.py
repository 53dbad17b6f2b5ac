"""Plot a set of classes: a dendrogram with the eps line, the matrix of cosines, and a map.

The dendrogram shows single linkage of cosine distances, which cut at eps gives the groups of DBSCAN with min_samples =
1. The rows of the matrix are its leaves. Each group of more than one class has the same colour in all three parts;
other classes are grey.

Shapes: K classes, d embedding size, Q groups.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from semco.errors import UserError
from semco.files import atomic_path
from semco.groups.grouping import Groups
from semco.groups.plot.layout import fit_to_box, map_coordinates, separate_boxes
from semco.labels.distances import distances
from semco.labels.embeddings import LabelEmbeddings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
INK, ALONE, PAPER = "#20242c", "#8a909c", "#ffffff"
# Dark enough for text on white and easy to distinguish; with more groups the colours repeat.
# fmt: off
PALETTE = (
    "#1f6fb4", "#d1495b", "#2e8b57", "#c9731a", "#7a4fb5", "#0f8b8d", "#b5387f", "#7d7a1c",
    "#4659a8", "#a0522d", "#3b8ea5", "#9e2a2b", "#5a8f29", "#8f5fbf", "#b8860b", "#26706b",
)
# fmt: on
ROW = 0.145  # inches per class
ABOVE, BELOW = 0.8, 1.25  # inches for the titles and for the names below the matrix


@dataclass(frozen=True)
class PlotData:
    """The data that the three parts share."""

    names: tuple[str, ...]
    distances: NDArray[np.float64]  # (K, K)
    merges: NDArray[np.float64]  # (K - 1, 4) of single linkage, in SciPy's format
    group_ids: NDArray[np.int64]  # (K,)
    order: list[int]  # class ids from the top of the dendrogram to the bottom
    eps: float

    def colour(self, group_id: int) -> str:
        """Return the colour of a group, grey for a group of one class."""
        shared = [q for q in range(int(self.group_ids.max()) + 1) if (self.group_ids == q).sum() > 1]
        return PALETTE[shared.index(group_id) % len(PALETTE)] if group_id in shared else ALONE


def plot(embeddings: LabelEmbeddings, groups: Groups, path: Path) -> None:
    """Write the plot of at least two classes to a .png, .svg or .pdf file."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"cannot draw {path}: the file name must end in {', '.join(FORMATS)}, or .html for a page.")
    if len(embeddings.names) < 2:
        raise UserError("a plot needs at least two classes; add class names.")
    figure = draw(embeddings, groups)
    with atomic_path(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # for emoji in a name a box is drawn
        figure.savefig(temporary, format=path.suffix.lower()[1:], dpi=110, facecolor=PAPER)


def draw(embeddings: LabelEmbeddings, groups: Groups) -> Figure:
    """Return the plot as a matplotlib figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    data = _plot_data(embeddings, groups)
    rows = min(max(5.0, ROW * len(data.names)), 90.0)
    widths = [4.5, rows * 0.85, max(6.0, min(rows, 13.0))]  # tree, matrix, map
    tall = ABOVE + rows + BELOW
    figure = Figure(figsize=(2.2 + sum(widths), tall))
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        1, 3, width_ratios=widths, left=0.015, right=0.99, bottom=BELOW / tall, top=1 - ABOVE / tall,
        wspace=0.0,
    )  # fmt: skip
    tree, matrix, chart = (figure.add_subplot(cell) for cell in (grid[0], grid[1], grid[2]))
    _add_margins(figure, tree, matrix, chart)
    _draw_tree(tree, data)
    _draw_matrix(figure, matrix, data)
    _draw_map(figure, chart, data)
    figure.suptitle(
        f"{len(data.names)} classes, {groups.count} groups at eps = {groups.eps:.3g}  ·  {embeddings.source}",
        x=0.015, y=1 - 0.16 / tall, ha="left", va="top", fontsize=13, color=INK, parse_math=False,
    )  # fmt: skip
    return figure


def _plot_data(embeddings: LabelEmbeddings, groups: Groups) -> PlotData:
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    between = distances(embeddings.matrix)
    is_ordered = len(between) <= 500  # the time is cubic, and with more classes the order hardly matters
    merges = linkage(squareform(between, checks=False), method="single", optimal_ordering=is_ordered)
    names = tuple(name if len(name) <= 24 else f"{name[:23]}…" for name in embeddings.names)
    order = leaves_list(merges).tolist()
    return PlotData(names, between, merges, groups.group_ids, order, groups.eps)


def _add_margins(figure: Figure, tree: Axes, matrix: Axes, chart: Axes) -> None:
    """Make room for the names between tree and matrix, and for the colour bar between matrix and map."""
    inch = 1 / figure.get_figwidth()
    left, top = tree.get_position(), matrix.get_position()
    tree.set_position((left.x0, left.y0, left.width - 1.45 * inch, left.height))
    matrix.set_position((top.x0 + 0.05 * inch, top.y0, top.width - 0.05 * inch, top.height))
    right = chart.get_position()
    chart.set_position((right.x0 + 0.75 * inch, right.y0, right.width - 0.75 * inch, right.height))


def _style_axes(axes: Axes, title: str) -> None:
    """Remove the frame and tick marks, and set the title."""
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0, colors=INK)
    axes.set_title(title, loc="left", fontsize=10.5, color=INK, pad=6)


def _draw_tree(axes: Axes, data: PlotData) -> None:
    from matplotlib.collections import LineCollection

    _style_axes(axes, "Dendrogram: distance at which classes merge")
    lines, colours = _branches(data)
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=1.3, capstyle="round"))
    top = float(data.merges[-1, 2]) or 1.0
    size = len(data.names)
    axes.set_xlim(max(top, data.eps) * 1.04, 0)
    axes.set_ylim(size - 0.5, -0.5)
    if data.eps > 0:
        axes.axvline(data.eps, color="#e4572e", linewidth=1.2, linestyle=(0, (4, 2)))
        axes.annotate(
            f"eps {data.eps:.3g}", (data.eps, 1), xycoords=("data", "axes fraction"), xytext=(3, -2),
            textcoords="offset points", color="#e4572e", fontsize=9, va="top",
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}, zorder=4,
        )  # fmt: skip
    axes.yaxis.tick_right()
    axes.set_yticks(range(size), [data.names[i] for i in data.order], fontsize=_font(size), parse_math=False)
    for tick, i in zip(axes.get_yticklabels(), data.order, strict=True):
        colour = data.colour(int(data.group_ids[i]))
        tick.set_color(INK if colour == ALONE else colour)
        tick.set_fontweight("normal" if colour == ALONE else "bold")
    axes.set_xlabel("cosine distance", fontsize=9, color=INK)


def _branches(data: PlotData) -> tuple[list[NDArray[np.float64]], list[str]]:
    """Return the bracket of each merge and its colour: that of the group below eps, grey above."""
    size = len(data.names)
    rows = {leaf: float(place) for place, leaf in enumerate(data.order)}
    heights = dict.fromkeys(range(size), 0.0)
    member = {i: i for i in range(size)}  # one class below each node
    lines, colours = [], []
    for node, (a, b, height, _) in enumerate(data.merges, size):
        a, b = int(a), int(b)
        bracket = [(heights[a], rows[a]), (height, rows[a]), (height, rows[b]), (heights[b], rows[b])]
        lines.append(np.asarray(bracket))
        below = height <= data.eps
        colours.append(data.colour(int(data.group_ids[member[a]])) if below else "#b9bec8")
        rows[node], heights[node], member[node] = (rows[a] + rows[b]) / 2, float(height), member[a]
    return lines, colours


def _draw_matrix(figure: Figure, axes: Axes, data: PlotData) -> None:
    from matplotlib.patches import Rectangle

    similar = 1 - data.distances[np.ix_(data.order, data.order)]
    size = len(similar)
    shown = similar.copy()
    np.fill_diagonal(shown, np.nan)  # always 1, which would dominate the colour scale
    low, high = np.nanmedian(shown), np.nanmax(shown)  # dissimilar pairs stay white
    image = axes.imshow(shown, cmap="Blues", vmin=low, vmax=max(high, low + 1e-6), aspect="auto", interpolation="none")
    axes.set_facecolor("#eceef2")
    for start, stop, group_id in _runs(data.group_ids[data.order]):
        if stop - start > 1:
            corner, side, colour = (start - 0.5, start - 0.5), stop - start, data.colour(group_id)
            axes.add_patch(Rectangle(corner, side, side, fill=False, linewidth=2, edgecolor=colour, clip_on=False))
    _style_axes(axes, "Cosine of each pair of classes")
    axes.set_yticks([])
    axes.set_xticks(
        range(size), [data.names[i] for i in data.order], rotation=90, fontsize=_font(size) * 0.85,
        parse_math=False,
    )  # fmt: skip
    box = axes.get_position()
    inch = 1 / figure.get_figwidth()
    bar = figure.add_axes((box.x1 + 0.1 * inch, box.y1 - box.height * 0.3, 0.12 * inch, box.height * 0.3))
    figure.colorbar(image, cax=bar).outline.set_visible(False)
    bar.tick_params(labelsize=7.5, length=0, colors=INK)


def _runs(group_ids: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Return start, end and group id of each run of equal ids; the leaves of a group are next to each other."""
    edges = [0, *(np.flatnonzero(np.diff(group_ids)) + 1).tolist(), len(group_ids)]
    return [(a, b, int(group_ids[a])) for a, b in pairwise(edges)]


def _draw_map(figure: Figure, axes: Axes, data: PlotData) -> None:
    """Draw the class names at their t-SNE positions, moved apart until all can be read."""
    box = axes.get_position()
    width, height = box.width * figure.get_figwidth(), box.height * figure.get_figheight()
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_xticks([])
    axes.set_yticks([])
    _style_axes(axes, "Map (t-SNE): similar classes are close")
    points = fit_to_box(map_coordinates(data.distances), width - 1.2, height - 0.6) + np.asarray([0.6, 0.3])
    texts = [_name_on_map(axes, data, i, points[i]) for i in range(len(points))]
    sizes = _text_sizes(figure, texts) + np.asarray([0.06, 0.04])
    points = separate_boxes(points, sizes, np.asarray([width, height]))
    for text, point in zip(texts, points, strict=True):
        text.set_position(point)
    _draw_regions(axes, data, points, sizes)


def _name_on_map(axes: Axes, data: PlotData, i: int, point: NDArray[np.float64]) -> Any:
    colour = data.colour(int(data.group_ids[i]))
    alone = colour == ALONE
    x, y = point.tolist()
    weight, shade = ("normal", "#4b515d") if alone else ("bold", colour)
    style: dict[str, Any] = {
        "color": shade,
        "fontweight": weight,
        "fontsize": _font(len(data.names)) + 2.5,
        "zorder": 3,
    }
    return axes.text(x, y, data.names[i], ha="center", va="center", parse_math=False, **style)


def _text_sizes(figure: Figure, texts: Sequence[Any]) -> NDArray[np.float64]:
    """Return the width and height (K, 2) of texts in inches."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        extents = [text.get_window_extent(figure.canvas.get_renderer()) for text in texts]  # type: ignore[attr-defined]
    return np.asarray([(extent.width, extent.height) for extent in extents]) / figure.dpi


def _draw_regions(axes: Axes, data: PlotData, points: NDArray[np.float64], sizes: NDArray[np.float64]) -> None:
    """Draw a light region behind the names of each group."""
    from matplotlib.patches import Polygon
    from scipy.spatial import ConvexHull

    corners = np.asarray([(-1, -1), (-1, 1), (1, 1), (1, -1)]) / 2
    for group_id in range(int(data.group_ids.max()) + 1):
        members = np.flatnonzero(data.group_ids == group_id)
        if len(members) > 1:
            cloud = (points[members][:, None] + sizes[members][:, None] * corners).reshape(-1, 2)
            outline = cloud[ConvexHull(cloud).vertices]
            tint = _tint(data.colour(group_id))
            axes.add_patch(Polygon(outline, facecolor=tint, edgecolor=tint, linewidth=9, joinstyle="round", zorder=1))


def _tint(colour: str, strength: float = 0.16) -> tuple[float, ...]:
    """Return a colour mixed with white; with transparency the overlap of a region and its edge would be darker."""
    from matplotlib.colors import to_rgb

    return tuple(strength * part + 1 - strength for part in to_rgb(colour))


def _font(size: int) -> float:
    """Return the font size for ``size`` class names."""
    return 9.0 if size <= 40 else 7.5 if size <= 150 else 5.0
