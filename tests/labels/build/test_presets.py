"""The presets of `semco labels build` on small files."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from semco.errors import UserError
from semco.labels.build import PRESETS, build_preset
from semco.labels.build.fetch import SOURCES, fetch

WORDS = ("dog", "wolf", "car", "bus")
EDGES = (("IsA", "dog", "animal"), ("IsA", "wolf", "animal"), ("Synonym", "dog", "hound"), ("IsA", "bus", "car"))
Files = dict[str, Path | None]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(4, 3)) + 2, (rng.normal(size=(4, 2)) + 1).astype(np.float32)
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, first, strict=True)]
    (tmp_path / "glove.txt").write_text("".join(lines))
    body = b"".join(word.encode() + b" " + struct.pack("<2f", *row) for word, row in zip(WORDS, second, strict=True))
    (tmp_path / "w2v.bin").write_bytes(b"4 2\n" + body)
    lines = [f'/a/x\t/r/{name}\t/c/en/{a}\t/c/en/{b}\t{{"weight": 1.0}}\n' for name, a, b in EDGES]
    (tmp_path / "graph.csv").write_text("".join(lines))
    np.save(tmp_path / "second.npy", second)
    return {"glove": tmp_path / "glove.txt", "word2vec": tmp_path / "w2v.bin", "conceptnet": tmp_path / "graph.csv"}


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def raw(path: Path | None) -> np.ndarray:
    assert path is not None
    return unit(np.asarray([line.split()[1:] for line in path.read_text().splitlines()], dtype=np.float64))


def faruqui(start: np.ndarray) -> np.ndarray:
    """The fixed point of v_i = (v^_i + sum_j v_j / degree(i)) / 2; animal and hound are means of their neighbours."""
    graph = np.zeros((6, 6))
    for a, b in ((0, 4), (1, 4), (0, 5), (2, 3)):
        graph[a, b] = graph[b, a] = 1
    rows, own = graph / graph.sum(axis=1, keepdims=True), np.array([1.0, 1, 1, 1, 0, 0])
    centred = np.concatenate([unit(start - start.mean(axis=0)), np.zeros((2, start.shape[1]))])
    return unit(np.linalg.solve(np.diag(own + 1) - rows, own[:, None] * centred))


def test_the_papers_build_by_an_independent_computation(files: Files, tmp_path: Path) -> None:
    """Rows of the graph are normalised, all relations count alike, U S^(1/2) of both sets side by side."""
    store = build_preset("paper", files, tmp_path / "s", dim=5)
    assert set(store.header["recipe"]["relations"].values()) == {1.0}
    sets = [faruqui(raw(files["glove"])), faruqui(unit(np.load(tmp_path / "second.npy").astype(np.float64)))]
    both = np.concatenate(sets, axis=1)
    left, values, _ = np.linalg.svd(both, full_matrices=False)
    expected = unit(left * np.sqrt(values))
    found = store.vectors([*WORDS, "animal", "hound"])
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=5e-3)  # stored in half precision


def test_no_preset_but_ours_infers_vectors() -> None:
    inferred = {name: (one.settings.translated_alpha, one.settings.composed_alpha) for name, one in PRESETS.items()}
    assert inferred == {"ours": (0.5, 2.0), "paper": (0.0, 0.0), "glove": (0.0, 0.0)}
    assert list(PRESETS["paper"].relations) == (
        ["SimilarTo", "InstanceOf", "IsA", "FormOf", "Synonym", "EtymologicallyRelatedTo", "DefinedAs"]
    )


def test_raw_glove_keeps_its_cosines(files: Files, tmp_path: Path) -> None:
    store = build_preset("glove", {"glove": files["glove"]}, tmp_path / "s", dim=3)
    found, expected = store.vectors(WORDS), raw(files["glove"])
    assert set(store.terms()) == set(WORDS)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=2e-3)


def test_presets_that_cannot_work(files: Files, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown preset 'papers'; did you mean 'paper'"):
        build_preset("papers", files, tmp_path / "s")
    with pytest.raises(UserError, match="the preset glove uses no word2vec file"):
        build_preset("glove", {**files, "conceptnet": None}, tmp_path / "s")
    with pytest.raises(UserError, match="needs a ConceptNet file"):
        build_preset("paper", {**files, "conceptnet": None}, tmp_path / "s")
    with pytest.raises(UserError, match="a build needs vectors"):
        build_preset("glove", {}, tmp_path / "s")


def test_the_error_for_an_unknown_file_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"glove, glove-6b, word2vec"):
        fetch("glov", tmp_path)


def test_every_source_is_an_official_address_over_https() -> None:
    assert {"glove", "word2vec", "conceptnet"} <= set(SOURCES)
    assert all(source.url.startswith("https://") and source.licence for source in SOURCES.values())
