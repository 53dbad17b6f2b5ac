from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from semco.errors import UserError
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.groups import group
from semco.labels.map_layout import map_coordinates, separate_boxes
from semco.labels.plot import draw, plot
from semco.labels.tune import distances, eps_for_share, merge_heights, round_steps, suggested_eps, tune


def embeddings(matrix: np.ndarray, names: tuple[str, ...] | None = None) -> LabelEmbeddings:
    rows = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)
    names = names or tuple(f"class {i}" for i in range(len(rows)))
    return LabelEmbeddings(names, rows, names, ("exact",) * len(rows), "a test", 0.2)


def at_degrees(*angles: float) -> np.ndarray:
    radians = np.deg2rad(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def height(degrees: float) -> float:
    return float(1 - np.cos(np.deg2rad(degrees)))


RANDOM = np.random.default_rng(0).normal(size=(100, 20))


def test_distances_by_hand() -> None:
    found = distances(embeddings(at_degrees(0, 60, 180)).matrix)
    np.testing.assert_allclose(found, [[0, 0.5, 2], [0.5, 0, 1.5], [2, 1.5, 0]], atol=1e-6)


def test_heights_are_where_groups_merge() -> None:
    found = embeddings(at_degrees(0, 10, 40, 100))
    heights = merge_heights(found.matrix)
    np.testing.assert_allclose(heights, [height(10), height(30), height(60)], atol=1e-6)
    for i, merge in enumerate(heights):
        assert group(found, merge - 1e-4).count == 4 - i
        assert group(found, merge + 1e-4).count == 3 - i


def test_settings_list_the_new_groups() -> None:
    found = tune(embeddings(at_degrees(0, 10, 40, 100)), (0.0, 0.05, 0.1, 0.2))
    assert [(s.eps, s.groups, s.together, s.largest) for s in found.settings] == [
        (0.0, 4, 0, 1),
        (0.05, 3, 1, 2),
        (0.1, 3, 1, 2),
        (0.2, 2, 1, 3),
    ]
    assert [s.joined for s in found.settings] == [
        (),
        (("class 0", "class 1"),),
        (),
        (("class 0", "class 1", "class 2"),),
    ]
    assert found.default == 0.2


def test_the_default_steps_end_with_one_group() -> None:
    settings = tune(embeddings(RANDOM)).settings
    assert settings[0].groups == 100
    assert settings[-1].groups == 1
    assert 5 < len(settings) <= 26


@pytest.mark.parametrize("top", [0.0, 0.01, 0.3, 1.0, 2.0])
def test_round_steps_reach_the_top(top: float) -> None:
    steps = round_steps(np.asarray([top]))
    assert steps[0] == 0
    assert steps[-1] >= top
    assert len(steps) <= 26


def test_the_suggested_eps_lies_in_a_planted_gap() -> None:
    """Twenty pairs, 0.01 to 0.05 apart, all else nearly at right angles: the gap is between."""
    rng = np.random.default_rng(1)
    bases = np.linalg.qr(rng.normal(size=(64, 64)))[0]
    partners = bases[:20] + 0.2 * rng.uniform(0.7, 1.5, size=(20, 1)) * bases[20:40]
    found = embeddings(np.concatenate([bases[:20], partners, bases[40:]]))
    suggested = suggested_eps(found.matrix)
    assert group(found, suggested).count == len(found.names) - 20
    assert 0.05 < suggested < 0.95


def test_the_suggested_eps_gives_no_large_group() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 60))
        found = embeddings(rng.normal(size=(size, 6)))
        assert group(found, suggested_eps(found.matrix)).largest <= max(3, 0.1 * size)


def test_small_cases() -> None:
    assert suggested_eps(np.ones((1, 3), dtype=np.float32)) == 0.0
    assert suggested_eps(embeddings(at_degrees(0, 60)).matrix) == pytest.approx(0.25, abs=1e-6)
    assert tune(embeddings(np.ones((1, 3)))).settings[0].groups == 1


def test_eps_for_a_share_of_the_pairs() -> None:
    found = embeddings(RANDOM)
    eps = eps_for_share(found.matrix)
    pairs = distances(found.matrix)[np.triu_indices(100, 1)]
    assert (pairs <= eps).sum() == 9  # the paper's nine of 4,950
    few = embeddings(RANDOM[:10])
    assert group(few, eps_for_share(few.matrix)).count == 10
    assert eps_for_share(found.matrix[:1]) == 0.0
    assert eps_for_share(few.matrix, 1.0) < 2


@pytest.mark.parametrize("size", [2, 3, 5, 12, 100])
def test_plots(size: int, tmp_path: Path) -> None:
    found = embeddings(RANDOM[:size])
    path = tmp_path / "p.png"
    plot(found, group(found, 0.4), path)
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    assert pixels.shape[0] > 500
    assert (pixels < 250).any(axis=2).mean() > 0.02  # not an empty page
    assert [p.name for p in tmp_path.iterdir()] == ["p.png"]


def test_all_names_are_drawn_without_overlap() -> None:
    found = embeddings(RANDOM)
    figure = draw(found, group(found, 0.4))
    tree, matrix, chart, _ = figure.axes
    assert sorted(tick.get_text() for tick in tree.get_yticklabels()) == sorted(found.names)
    assert [t.get_text() for t in tree.get_yticklabels()] == [t.get_text() for t in matrix.get_xticklabels()]
    boxes = [text.get_window_extent() for text in chart.texts]
    assert sorted(text.get_text() for text in chart.texts) == sorted(found.names)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize("eps", [0.0, 2.0])
def test_plots_without_groups_and_with_one_group(eps: float, tmp_path: Path) -> None:
    found = embeddings(RANDOM[:8])
    plot(found, group(found, eps), tmp_path / "p.svg")
    assert "</svg>" in (tmp_path / "p.svg").read_text()


def test_odd_names_and_equal_vectors(tmp_path: Path) -> None:
    names = ("$x$", "🐶", "a" * 1000, "日本", "<b>&", "100%")
    found = embeddings(np.ones((6, 4)), names)
    plot(found, group(found), tmp_path / "p.pdf")
    assert (tmp_path / "p.pdf").stat().st_size > 1000


def test_plots_that_cannot_be_drawn(tmp_path: Path) -> None:
    found = embeddings(RANDOM[:3])
    with pytest.raises(UserError, match=r"must end in .png"):
        plot(found, group(found), tmp_path / "p.jpeg2")
    one = embeddings(RANDOM[:1])
    with pytest.raises(UserError, match="at least two"):
        plot(one, group(one), tmp_path / "p.png")


def test_the_map_is_the_same_every_time() -> None:
    cosine_distances = distances(embeddings(RANDOM[:30]).matrix)
    np.testing.assert_array_equal(map_coordinates(cosine_distances), map_coordinates(cosine_distances))


def test_boxes_are_separated() -> None:
    points, sizes = np.zeros((12, 2)) + 2, np.tile([1.0, 0.2], (12, 1))
    moved = separate_boxes(points, sizes, np.asarray([4.0, 4.0]))
    gap = np.abs(moved[:, None] - moved[None]) + np.eye(12)[..., None] * 9
    assert ((gap >= [1 - 1e-3, 0.2 - 1e-3]).any(axis=2)).all()
    assert (moved >= sizes / 2 - 1e-9).all()
    assert (moved <= 4 - sizes / 2 + 1e-9).all()
