"""The options of the paper's build, and raw GloVe, on small files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from semco.errors import UserError
from semco.labels.build.options import build_from_options

WORDS = ("dog", "wolf", "car", "bus")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path | None]:
    rows = np.random.default_rng(0).normal(size=(4, 3)) + 2
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, rows, strict=True)]
    (tmp_path / "glove.txt").write_text("".join(lines))
    edges = ("IsA", "dog", "animal"), ("IsA", "wolf", "animal"), ("Synonym", "dog", "hound"), ("IsA", "bus", "car")
    lines = [f'/a/x\t/r/{name}\t/c/en/{a}\t/c/en/{b}\t{{"weight": 1.0}}\n' for name, a, b in edges]
    (tmp_path / "graph.csv").write_text("".join(lines))
    return {"glove": tmp_path / "glove.txt", "word2vec": None, "conceptnet": tmp_path / "graph.csv"}


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def raw(path: Path | None) -> np.ndarray:
    assert path is not None
    return unit(np.asarray([line.split()[1:] for line in path.read_text().splitlines()], dtype=np.float64))


def test_the_papers_build_by_an_independent_computation(files: dict[str, Path | None], tmp_path: Path) -> None:
    """q_i = (q_i' + sum of neighbours) / (1 + number of neighbours), with all weights 1, not centred, plain SVD."""
    choices = {"dim": 3, "iterations": 200, "alpha": 1.0, "singular_power": 1.0, "is_centred": False}
    store = build_from_options(files, tmp_path / "s", choices=choices, is_equal=True, infers=False)
    assert set(store.header["recipe"]["relations"].values()) == {1.0}
    terms = [*WORDS, "animal", "hound"]
    start = np.concatenate([raw(files["glove"]), np.zeros((2, 3))])
    own = np.array([1, 1, 1, 1, 0, 0])
    graph = np.zeros((6, 6))
    for a, b in ((0, 4), (1, 4), (0, 5), (2, 3)):
        graph[a, b] = graph[b, a] = 1
    solved = np.linalg.solve(np.diag(own + graph.sum(axis=1)) - graph, own[:, None] * start)
    found = store.vectors(terms)
    np.testing.assert_allclose(found @ found.T, unit(solved) @ unit(solved).T, atol=5e-3)  # an SVD keeps cosines


def test_raw_glove_keeps_its_cosines(files: dict[str, Path | None], tmp_path: Path) -> None:
    choices = {"dim": 3, "iterations": 0}
    store = build_from_options({**files, "conceptnet": None}, tmp_path / "s", choices=choices, is_glove_only=True)
    found, expected = store.vectors(WORDS), raw(files["glove"])
    assert set(store.terms()) == set(WORDS)
    assert store.kin is None
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=2e-3)


def test_options_that_cannot_work(files: dict[str, Path | None], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="GloVe alone needs the file"):
        build_from_options({**files, "glove": None}, tmp_path / "s", is_glove_only=True)
    with pytest.raises(UserError, match="needs a ConceptNet file"):
        build_from_options({**files, "conceptnet": None}, tmp_path / "s")
    with pytest.raises(UserError, match="alpha = 0 must be positive"):
        build_from_options(files, tmp_path / "s", choices={"alpha": 0.0})
