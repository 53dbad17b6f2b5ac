"""One picture of a set of classes: a dendrogram with the eps line, the similarity matrix beside it, and a map.

The dendrogram is single linkage, which is what DBSCAN with one sample a core cuts at eps. Rows of the matrix are its
leaves. Groups of more than one class have a colour, the same in all three parts; the rest is grey.

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
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.groups import Groups
from semco.labels.tune import distances, linkage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
INK, ALONE, PAPER = "#20242c", "#8a909c", "#ffffff"
# Dark enough for words on white, far enough apart to tell neighbours from each other; groups beyond go round again.
# fmt: off
PALETTE = (
    "#1f6fb4", "#d1495b", "#2e8b57", "#c9731a", "#7a4fb5", "#0f8b8d", "#b5387f", "#7d7a1c",
    "#4659a8", "#a0522d", "#3b8ea5", "#9e2a2b", "#5a8f29", "#8f5fbf", "#b8860b", "#26706b",
)
# fmt: on
ROW = 0.145  # inches a class
ABOVE, BELOW = 0.8, 1.25  # inches for the titles, and for the names below the matrix


@dataclass(frozen=True)
class Picture:
    """What the three parts share."""

    names: tuple[str, ...]
    distances: NDArray[np.float64]  # (K, K)
    merges: NDArray[np.float64]  # (K - 1, 4)
    labels: NDArray[np.int64]  # (K,)
    order: list[int]  # classes from the top of the dendrogram down
    eps: float

    def colour(self, label: int) -> str:
        """Of a group: grey when it has one member."""
        together = [q for q in range(int(self.labels.max()) + 1) if (self.labels == q).sum() > 1]
        return PALETTE[together.index(label) % len(PALETTE)] if label in together else ALONE


def plot(embeddings: LabelEmbeddings, groups: Groups, path: Path) -> None:
    """Write the picture (.png, .svg or .pdf) of at least two classes."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"cannot draw {path}: the name must end in {', '.join(FORMATS)}.")
    if len(embeddings.names) < 2:
        raise UserError("a picture needs at least two classes.")
    figure = draw(embeddings, groups)
    with atomic_path(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # emoji in a name: a box is drawn
        figure.savefig(temporary, format=path.suffix.lower()[1:], dpi=110, facecolor=PAPER)


def draw(embeddings: LabelEmbeddings, groups: Groups) -> Figure:
    """The picture as a matplotlib figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = _picture(embeddings, groups)
    rows = min(max(5.0, ROW * len(picture.names)), 90.0)
    widths = [4.5, rows * 0.85, max(6.0, min(rows, 13.0))]  # tree, matrix, map
    tall = ABOVE + rows + BELOW
    figure = Figure(figsize=(2.2 + sum(widths), tall))
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        1, 3, width_ratios=widths, left=0.015, right=0.99, bottom=BELOW / tall, top=1 - ABOVE / tall,
        wspace=0.0,
    )  # fmt: skip
    tree, matrix, chart = (figure.add_subplot(cell) for cell in (grid[0], grid[1], grid[2]))
    _separate(figure, tree, matrix, chart)
    _draw_tree(tree, picture)
    _draw_matrix(figure, matrix, picture)
    _draw_map(figure, chart, picture)
    figure.suptitle(
        f"{len(picture.names)} classes, {groups.count} groups at eps = {groups.eps:.3g}  ·  {embeddings.source}",
        x=0.015, y=1 - 0.16 / tall, ha="left", va="top", fontsize=13, color=INK, parse_math=False,
    )  # fmt: skip
    return figure


def _picture(embeddings: LabelEmbeddings, groups: Groups) -> Picture:
    from scipy.cluster.hierarchy import leaves_list, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    apart = distances(embeddings.matrix)
    merges = linkage(embeddings.matrix)
    if len(apart) <= 500:  # cubic, and in a picture of more classes nobody follows the order
        merges = optimal_leaf_ordering(merges, squareform(apart, checks=False))
    names = tuple(name if len(name) <= 24 else f"{name[:23]}…" for name in embeddings.names)
    order = leaves_list(merges).tolist()
    return Picture(names, apart, merges, groups.labels, order, groups.eps)


def _separate(figure: Figure, tree: Axes, matrix: Axes, chart: Axes) -> None:
    """Room for the names between tree and matrix, and for the colour bar between matrix and map."""
    inch = 1 / figure.get_figwidth()
    left, top = tree.get_position(), matrix.get_position()
    tree.set_position((left.x0, left.y0, left.width - 1.45 * inch, left.height))
    matrix.set_position((top.x0 + 0.05 * inch, top.y0, top.width - 0.05 * inch, top.height))
    right = chart.get_position()
    chart.set_position((right.x0 + 0.75 * inch, right.y0, right.width - 0.75 * inch, right.height))


def _clear(axes: Axes, title: str) -> None:
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0, colors=INK)
    axes.set_title(title, loc="left", fontsize=10.5, color=INK, pad=6)


def _draw_tree(axes: Axes, picture: Picture) -> None:
    from matplotlib.collections import LineCollection

    _clear(axes, "Which classes meet, and where")
    lines, colours = _branches(picture)
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=1.3, capstyle="round"))
    top = float(picture.merges[-1, 2]) or 1.0
    size = len(picture.names)
    axes.set_xlim(max(top, picture.eps) * 1.04, 0)
    axes.set_ylim(size - 0.5, -0.5)
    if picture.eps > 0:
        axes.axvline(picture.eps, color="#e4572e", linewidth=1.2, linestyle=(0, (4, 2)))
        axes.annotate(
            f"eps {picture.eps:.3g}", (picture.eps, 1), xycoords=("data", "axes fraction"), xytext=(3, -2),
            textcoords="offset points", color="#e4572e", fontsize=9, va="top",
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}, zorder=4,
        )  # fmt: skip
    axes.yaxis.tick_right()
    axes.set_yticks(range(size), [picture.names[i] for i in picture.order], fontsize=_font(size), parse_math=False)
    for tick, i in zip(axes.get_yticklabels(), picture.order, strict=True):
        colour = picture.colour(int(picture.labels[i]))
        tick.set_color(INK if colour == ALONE else colour)
        tick.set_fontweight("normal" if colour == ALONE else "bold")
    axes.set_xlabel("cosine distance", fontsize=9, color=INK)


def _branches(picture: Picture) -> tuple[list[NDArray[np.float64]], list[str]]:
    """The bracket of each merge, in its group's colour below eps and grey above."""
    size = len(picture.names)
    rows = {leaf: float(place) for place, leaf in enumerate(picture.order)}
    heights = dict.fromkeys(range(size), 0.0)
    member = {i: i for i in range(size)}  # some class below each node
    lines, colours = [], []
    for node, (a, b, height, _) in enumerate(picture.merges, size):
        a, b = int(a), int(b)
        bracket = [(heights[a], rows[a]), (height, rows[a]), (height, rows[b]), (heights[b], rows[b])]
        lines.append(np.asarray(bracket))
        below = height <= picture.eps
        colours.append(picture.colour(int(picture.labels[member[a]])) if below else "#b9bec8")
        rows[node], heights[node], member[node] = (rows[a] + rows[b]) / 2, float(height), member[a]
    return lines, colours


def _draw_matrix(figure: Figure, axes: Axes, picture: Picture) -> None:
    from matplotlib.patches import Rectangle

    similar = 1 - picture.distances[np.ix_(picture.order, picture.order)]
    size = len(similar)
    shown = similar.copy()
    np.fill_diagonal(shown, np.nan)  # 1 by definition, and would take the scale's top
    low, high = np.nanmedian(shown), np.nanmax(shown)  # what is unlike stays white
    image = axes.imshow(shown, cmap="Blues", vmin=low, vmax=max(high, low + 1e-6), aspect="auto", interpolation="none")
    axes.set_facecolor("#eceef2")
    for start, stop, label in _runs(picture.labels[picture.order]):
        if stop - start > 1:
            corner, side, colour = (start - 0.5, start - 0.5), stop - start, picture.colour(label)
            axes.add_patch(Rectangle(corner, side, side, fill=False, linewidth=2, edgecolor=colour, clip_on=False))
    _clear(axes, "Cosine of each pair")
    axes.set_yticks([])
    axes.set_xticks(
        range(size), [picture.names[i] for i in picture.order], rotation=90, fontsize=_font(size) * 0.85,
        parse_math=False,
    )  # fmt: skip
    box = axes.get_position()
    inch = 1 / figure.get_figwidth()
    bar = figure.add_axes((box.x1 + 0.1 * inch, box.y1 - box.height * 0.3, 0.12 * inch, box.height * 0.3))
    figure.colorbar(image, cax=bar).outline.set_visible(False)
    bar.tick_params(labelsize=7.5, length=0, colors=INK)


def _runs(labels: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Start, end and label of each run of equal labels; below eps a group's leaves stand together."""
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    return [(a, b, int(labels[a])) for a, b in pairwise(edges)]


def _draw_map(figure: Figure, axes: Axes, picture: Picture) -> None:
    """Names where t-SNE puts the classes, pushed apart until each can be read."""
    box = axes.get_position()
    width, height = box.width * figure.get_figwidth(), box.height * figure.get_figheight()
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_xticks([])
    axes.set_yticks([])
    _clear(axes, "Map: near each other means alike")
    points = _fit(coordinates(picture.distances), width - 1.2, height - 0.6) + np.asarray([0.6, 0.3])
    texts = [_name_on_map(axes, picture, i, points[i]) for i in range(len(points))]
    sizes = _text_sizes(figure, texts) + np.asarray([0.06, 0.04])
    points = pushed_apart(points, sizes, np.asarray([width, height]))
    for text, point in zip(texts, points, strict=True):
        text.set_position(point)
    _draw_regions(axes, picture, points, sizes)


def _name_on_map(axes: Axes, picture: Picture, i: int, point: NDArray[np.float64]) -> Any:
    colour = picture.colour(int(picture.labels[i]))
    alone = colour == ALONE
    x, y = point.tolist()
    weight, shade = ("normal", "#4b515d") if alone else ("bold", colour)
    style: dict[str, Any] = {
        "color": shade,
        "fontweight": weight,
        "fontsize": _font(len(picture.names)) + 2.5,
        "zorder": 3,
    }
    return axes.text(x, y, picture.names[i], ha="center", va="center", parse_math=False, **style)


def _text_sizes(figure: Figure, texts: Sequence[Any]) -> NDArray[np.float64]:
    """(K, 2) width and height in inches."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        extents = [text.get_window_extent(figure.canvas.get_renderer()) for text in texts]  # type: ignore[attr-defined]
    return np.asarray([(extent.width, extent.height) for extent in extents]) / figure.dpi


def _draw_regions(axes: Axes, picture: Picture, points: NDArray[np.float64], sizes: NDArray[np.float64]) -> None:
    """A soft region behind the names of each group."""
    from matplotlib.patches import Polygon
    from scipy.spatial import ConvexHull

    corners = np.asarray([(-1, -1), (-1, 1), (1, 1), (1, -1)]) / 2
    for label in range(int(picture.labels.max()) + 1):
        members = np.flatnonzero(picture.labels == label)
        if len(members) > 1:
            cloud = (points[members][:, None] + sizes[members][:, None] * corners).reshape(-1, 2)
            outline = cloud[ConvexHull(cloud).vertices]
            tint = _tint(picture.colour(label))
            axes.add_patch(Polygon(outline, facecolor=tint, edgecolor=tint, linewidth=9, joinstyle="round", zorder=1))


def _tint(colour: str, strength: float = 0.16) -> tuple[float, ...]:
    """A colour mixed with the paper; with alpha instead, a region and its own edge would show through each other."""
    from matplotlib.colors import to_rgb

    return tuple(strength * part + 1 - strength for part in to_rgb(colour))


def coordinates(apart: NDArray[np.float64]) -> NDArray[np.float64]:
    """(K, 2) t-SNE of the distances, begun from classical scaling and so the same every time."""
    start = _classical_scaling(apart)
    if len(apart) < 5:
        return start
    from sklearn.manifold import TSNE

    scale = 1e-4 / max(float(start[:, 0].std()), 1e-12)
    perplexity = min(15.0, (len(apart) - 1) / 3)
    model = TSNE(metric="precomputed", init=(start * scale).astype(np.float32), perplexity=perplexity, random_state=0)
    found: NDArray[np.float64] = model.fit_transform(apart).astype(np.float64)
    return found


def _classical_scaling(apart: NDArray[np.float64]) -> NDArray[np.float64]:
    """(K, 2) the plane in which squared distances are kept best (Torgerson)."""
    size = len(apart)
    centre = np.eye(size) - 1 / size
    values, vectors = np.linalg.eigh(-0.5 * centre @ (2 * apart) @ centre)  # |u - v|^2 = 2 (1 - cos)
    plane = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0))
    signs = np.where(plane[np.abs(plane).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    found: NDArray[np.float64] = plane * signs
    return found


def _fit(points: NDArray[np.float64], width: float, height: float) -> NDArray[np.float64]:
    low, high = points.min(axis=0), points.max(axis=0)
    fitted: NDArray[np.float64] = (points - low) / np.maximum(high - low, 1e-9) * [width, height]
    return fitted


def pushed_apart(
    points: NDArray[np.float64], sizes: NDArray[np.float64], limits: NDArray[np.float64], rounds: int = 400
) -> NDArray[np.float64]:
    """(K, 2) centres of boxes of the given ``sizes``, moved until none overlaps, inside ``limits``."""
    points = points.copy()
    room = (sizes[:, None] + sizes[None, :]) / 2  # (K, K, 2)
    for _ in range(rounds):
        gap = points[:, None] - points[None, :]
        overlap = room - np.abs(gap)
        clash = (overlap > 1e-6).all(axis=2) & ~np.eye(len(points), dtype=bool)
        if not clash.any():
            break
        along = overlap.argmin(axis=2)  # the shorter way out
        way = np.take_along_axis(gap, along[..., None], axis=2)[..., 0]
        ties = np.sign(np.arange(len(points))[:, None] - np.arange(len(points))[None, :])
        push = np.where(way == 0, ties, np.sign(way)) * overlap.min(axis=2) * clash * 0.26
        for axis in (0, 1):
            points[:, axis] += (push * (along == axis)).sum(axis=1)
        points = np.clip(points, sizes / 2, np.maximum(limits - sizes / 2, sizes / 2))
    return points


def _font(size: int) -> float:
    return 9.0 if size <= 40 else 7.5 if size <= 150 else 5.0
