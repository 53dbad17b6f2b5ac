from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from semco.errors import UserError
from semco.groups.grouping import group_classes
from semco.groups.plot import draw, plot
from semco.labels.embeddings import LabelEmbeddings


def embeddings(matrix: np.ndarray, names: tuple[str, ...] | None = None) -> LabelEmbeddings:
    rows = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)
    names = names or tuple(f"class {i}" for i in range(len(rows)))
    return LabelEmbeddings(names, rows, names, ("exact",) * len(rows), "a test", 0.2)


RANDOM = np.random.default_rng(0).normal(size=(100, 20))


@pytest.mark.parametrize("size", [2, 3, 5, 12, 100])
def test_plots(size: int, tmp_path: Path) -> None:
    found = embeddings(RANDOM[:size])
    path = tmp_path / "p.png"
    plot(found, group_classes(found, 0.4), path)
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    assert pixels.shape[0] > 500
    assert (pixels < 250).any(axis=2).mean() > 0.02  # not an empty page
    assert [p.name for p in tmp_path.iterdir()] == ["p.png"]


def test_all_names_are_drawn_without_overlap() -> None:
    found = embeddings(RANDOM)
    figure = draw(found, group_classes(found, 0.4))
    tree, matrix, chart, _ = figure.axes
    assert sorted(tick.get_text() for tick in tree.get_yticklabels()) == sorted(found.names)
    assert [t.get_text() for t in tree.get_yticklabels()] == [t.get_text() for t in matrix.get_xticklabels()]
    boxes = [text.get_window_extent() for text in chart.texts]
    assert sorted(text.get_text() for text in chart.texts) == sorted(found.names)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize("eps", [0.0, 2.0])
def test_plots_without_groups_and_with_one_group(eps: float, tmp_path: Path) -> None:
    found = embeddings(RANDOM[:8])
    plot(found, group_classes(found, eps), tmp_path / "p.svg")
    assert "</svg>" in (tmp_path / "p.svg").read_text()


def test_odd_names_and_equal_vectors(tmp_path: Path) -> None:
    names = ("$x$", "🐶", "a" * 1000, "日本", "<b>&", "100%")
    found = embeddings(np.ones((6, 4)), names)
    plot(found, group_classes(found), tmp_path / "p.pdf")
    assert (tmp_path / "p.pdf").stat().st_size > 1000


def test_plots_that_cannot_be_drawn(tmp_path: Path) -> None:
    found = embeddings(RANDOM[:3])
    with pytest.raises(UserError, match=r"must end in .png"):
        plot(found, group_classes(found), tmp_path / "p.jpeg2")
    one = embeddings(RANDOM[:1])
    with pytest.raises(UserError, match="at least two"):
        plot(one, group_classes(one), tmp_path / "p.png")
