from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from semco.errors import UserError
from semco.labels import build as build_module
from semco.labels.build import Recipe, build, import_numberbatch, make_vocabulary
from semco.labels.readers.conceptnet import Edges
from semco.labels.readers.vectors import VectorSet
from semco.labels.store import VectorStore, unit_rows

ANIMALS = ["dog", "wolf", "cat", "lion", "trout", "salmon"]
THINGS = ["car", "bus", "boat", "chair", "table", "lamp"]


def edge(relation: str, start: str, end: str) -> str:
    info = json.dumps({"weight": 1.0})
    return f"/a/x\t/r/{relation}\t/c/en/{start}\t/c/en/{end}\t{info}\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Small official-looking files: both sets know most words, the graph knows hounds and husks of its own."""
    rng = np.random.default_rng(0)
    words = ANIMALS + THINGS
    glove = [f"{word} {' '.join(f'{x:.5f}' for x in rng.normal(size=6))}\n" for word in [*words, "only_glove"]]
    (tmp_path / "glove.txt").write_text("".join(glove))
    rows = {word: rng.normal(size=4) for word in [*words[2:], "only_word2vec"]}
    body = b"".join(word.encode() + b" " + struct.pack("<4f", *row) for word, row in rows.items())
    (tmp_path / "w2v.bin").write_bytes(f"{len(rows)} 4\n".encode() + body)
    edges = [edge("IsA", word, "animal") for word in ANIMALS] + [edge("IsA", word, "thing") for word in THINGS]
    edges += [edge("Synonym", "dog", "hound"), edge("IsA", "island_a", "island_b"), edge("UsedFor", "car", "wheel")]
    (tmp_path / "graph.csv").write_text("".join(edges))
    return {"glove": tmp_path / "glove.txt", "word2vec": tmp_path / "w2v.bin", "conceptnet": tmp_path / "graph.csv"}


def test_every_term_that_can_have_a_vector_has_one(files: dict[str, Path], tmp_path: Path) -> None:
    store = build(**files, out=tmp_path / "store", recipe=Recipe(dim=5))
    expected = {*ANIMALS, *THINGS, "only_glove", "only_word2vec", "animal", "thing", "hound"}
    assert set(store.terms()) == expected  # not the island, which no path joins to a word with a vector
    assert store.dim == 5
    np.testing.assert_allclose(np.linalg.norm(store.vectors(sorted(expected)), axis=1), 1, atol=1e-5)
    assert store.vector("dog") @ store.vector("hound") > 0.9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["glove.txt", "graph.csv", "store", "w2v.bin"]


def test_kin_come_nearer_by_retrofitting(files: dict[str, Path], tmp_path: Path) -> None:
    def kinship(iterations: int) -> float:
        recipe = Recipe(dim=10, iterations=iterations, singular_power=1)
        store = build(**files, out=tmp_path / f"store{iterations}", recipe=recipe)
        rows = store.vectors(ANIMALS)
        return float((rows @ rows.T)[np.triu_indices(6, 1)].mean())

    assert kinship(20) > kinship(0) + 0.2


def test_the_header_says_what_it_is_made_of_and_not_where_it_lay(files: dict[str, Path], tmp_path: Path) -> None:
    header = build(**files, out=tmp_path / "store").header
    assert header["sources"]["glove"]["file"] == "glove.txt"
    assert header["sources"]["glove"]["lines"] == 13
    assert header["sources"]["conceptnet"]["edges"] == 14
    assert len(header["sources"]["word2vec"]["sha256"]) == 64
    assert header["recipe"]["relations"]["IsA"] == 1.0
    assert str(tmp_path) not in json.dumps(header)


def test_one_set_is_enough_and_none_is_not(files: dict[str, Path], tmp_path: Path) -> None:
    store = build(files["glove"], None, files["conceptnet"], tmp_path / "store", recipe=Recipe(dim=3))
    assert "only_glove" in store
    assert "only_word2vec" not in store
    with pytest.raises(UserError, match="a build needs vectors"):
        build(None, None, files["conceptnet"], tmp_path / "other")


def test_keep_writes_only_the_named_terms_with_the_same_vectors(files: dict[str, Path], tmp_path: Path) -> None:
    whole = build(**files, out=tmp_path / "whole")
    part = build(**files, out=tmp_path / "part", keep=["cat", "hound", "nowhere"])
    assert list(part.terms()) == ["cat", "hound"]
    np.testing.assert_array_equal(part.vectors(["cat", "hound"]), whole.vectors(["cat", "hound"]))
    with pytest.raises(UserError, match="none of the 1 terms to keep"):
        build(**files, out=tmp_path / "none", keep=["nowhere"])
    assert not (tmp_path / "none").exists()


def test_max_words_caps_the_vocabulary(files: dict[str, Path], tmp_path: Path) -> None:
    assert build(**files, out=tmp_path / "store", max_words=8).size <= 8


def test_terms_known_to_more_sources_come_first_then_the_more_frequent() -> None:
    none = np.zeros((0, 2), np.float32)
    first, second = VectorSet(["rare_in_all", "both", "one"], none), VectorSet(["x", "both", "rare_in_all"], none)
    edges = Edges(
        ["rare_in_all", "leaf", "hub"],
        np.array([0, 1], np.int32),
        np.array([2, 2], np.int32),
        np.zeros(2, np.int8),
        np.ones(2, np.float32),
        ("IsA",),
    )
    found = make_vocabulary([first, second], edges, None)
    assert found.terms == ["rare_in_all", "both", "hub", "x", "leaf", "one"]
    assert make_vocabulary([first, second], edges, 2).terms == ["rare_in_all", "both"]
    assert found.places(["both", "unknown"]).tolist() == [1, -1]


def test_a_killed_build_goes_on_where_it_stopped(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build(**files, out=tmp_path / "whole")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build_module, "combine", killed)
        with pytest.raises(KeyboardInterrupt):
            build(**files, out=tmp_path / "store")
    assert not (tmp_path / "store").exists()
    told: list[str] = []
    again = build(**files, out=tmp_path / "store", report=lambda stage, *_: told.append(stage))
    assert not any(stage.startswith(("reading", "retrofitting")) for stage in told)
    np.testing.assert_array_equal(again.vectors(ANIMALS), whole.vectors(ANIMALS))
    assert not (tmp_path / ".store.stages").exists()


def test_changed_inputs_are_read_again(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build_module, "combine", killed)
        with pytest.raises(KeyboardInterrupt):
            build(**files, out=tmp_path / "store")
    with files["glove"].open("a") as stream:
        stream.write("newcomer 1 2 3 4 5 6\n")
    told: list[str] = []
    store = build(**files, out=tmp_path / "store", report=lambda stage, *_: told.append(stage))
    assert "newcomer" in store
    assert "reading GloVe" in told
    assert "reading word2vec" not in told


def test_a_failed_build_leaves_the_old_store(files: dict[str, Path], tmp_path: Path) -> None:
    build(**files, out=tmp_path / "store")
    files["conceptnet"].write_text("no graph\n")
    with pytest.raises(UserError, match=r"graph\.csv line 1"):
        build(**files, out=tmp_path / "store")
    assert "dog" in VectorStore.open(tmp_path / "store")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"relations": {}}, "name at least one"),
        ({"relations": {"IsA": -1.0}}, "positive weight"),
        ({"recipe": Recipe(dim=1)}, "at least 2"),
        ({"recipe": Recipe(iterations=-1)}, "not negative"),
        ({"max_words": 1}, "max_words = 1"),
    ],
)
def test_bad_settings_are_refused(files: dict[str, Path], tmp_path: Path, bad: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(**files, out=tmp_path / "store", **bad)


def test_a_foreign_folder_is_refused_before_any_work(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(UserError, match="exists and is not a vector store"):
        build(**files, out=tmp_path / "mine", report=lambda *_: pytest.fail("it began to work"))


def test_numberbatch_becomes_a_store(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 6)).round(3)
    lines = "".join(f"/c/en/t{i} {' '.join(map(str, row))}\n" for i, row in enumerate(rows))
    (tmp_path / "nb.txt").write_text(f"41 6\n{lines}/c/de/x 1 2 3 4 5 6\n")
    store = import_numberbatch(tmp_path / "nb.txt", tmp_path / "store", dim=6)
    assert store.size == 40
    unit = unit_rows(rows.astype(np.float32))
    found = store.vectors([f"t{i}" for i in range(40)])
    np.testing.assert_allclose(found @ found.T, unit @ unit.T, atol=5e-3)  # as many dimensions keep all cosines
    assert import_numberbatch(tmp_path / "nb.txt", tmp_path / "small", dim=3).dim == 3
    with pytest.raises(UserError, match="dim = 1"):
        import_numberbatch(tmp_path / "nb.txt", tmp_path / "bad", dim=1)
