from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from semco.errors import UserError
from semco.labels.build import BuildSettings, build_store, pipeline
from semco.labels.store import VectorStore

ANIMALS = ["dog", "wolf", "cat", "lion", "trout", "salmon"]
THINGS = ["car", "bus", "boat", "chair", "table", "lamp"]


def edge(relation: str, start: str, end: str) -> str:
    info = json.dumps({"weight": 1.0})
    return f"/a/x\t/r/{relation}\t/c/en/{start}\t/c/en/{end}\t{info}\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Small files in the official formats: both sets contain most words, the graph has a few terms of its own."""
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
    store = build_store(**files, out=tmp_path / "store", settings=BuildSettings(dim=5))
    expected = {*ANIMALS, *THINGS, "only_glove", "only_word2vec", "animal", "thing", "hound"}
    assert set(store.terms()) == expected  # not the island: no path leads from it to a word with a vector
    assert store.dim == 5
    np.testing.assert_allclose(np.linalg.norm(store.vectors(sorted(expected)), axis=1), 1, atol=1e-5)
    assert store.vector("dog") @ store.vector("hound") > 0.9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["glove.txt", "graph.csv", "store", "w2v.bin"]


def test_retrofitting_moves_related_terms_closer(files: dict[str, Path], tmp_path: Path) -> None:
    def mean_cosine(iterations: int) -> float:
        settings = BuildSettings(dim=10, iterations=iterations, singular_power=1)
        store = build_store(**files, out=tmp_path / f"store{iterations}", settings=settings)
        rows = store.vectors(ANIMALS)
        return float((rows @ rows.T)[np.triu_indices(6, 1)].mean())

    assert mean_cosine(20) > mean_cosine(0) + 0.1


def test_the_header_names_the_files_but_not_their_folders(files: dict[str, Path], tmp_path: Path) -> None:
    header = build_store(**files, out=tmp_path / "store").header
    assert header["sources"]["glove"]["file"] == "glove.txt"
    assert header["sources"]["glove"]["lines"] == 13
    assert header["sources"]["conceptnet"]["edges"] == 14
    assert len(header["sources"]["word2vec"]["sha256"]) == 64
    assert header["recipe"]["relations"]["IsA"] == 1.0
    assert str(tmp_path) not in json.dumps(header)


def test_a_build_needs_one_set_of_vectors(files: dict[str, Path], tmp_path: Path) -> None:
    store = build_store(files["glove"], None, files["conceptnet"], tmp_path / "store", settings=BuildSettings(dim=3))
    assert "only_glove" in store
    assert "only_word2vec" not in store
    with pytest.raises(UserError, match="a build needs vectors"):
        build_store(None, None, files["conceptnet"], tmp_path / "other")


def test_max_words_limits_the_vocabulary(files: dict[str, Path], tmp_path: Path) -> None:
    assert build_store(**files, out=tmp_path / "store", max_words=8).size <= 8


def test_an_interrupted_build_resumes(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = build_store(**files, out=tmp_path / "whole")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "combine", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build_store(**files, out=tmp_path / "store")
    assert not (tmp_path / "store").exists()
    stages: list[str] = []
    again = build_store(**files, out=tmp_path / "store", report=lambda stage, *_: stages.append(stage))
    assert not any(stage.startswith(("reading", "retrofitting")) for stage in stages)
    np.testing.assert_array_equal(again.vectors(ANIMALS), whole.vectors(ANIMALS))
    assert not (tmp_path / ".store.stages").exists()


def test_a_damaged_stage_is_computed_again(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build_store(**files, out=tmp_path / "whole")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "combine", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build_store(**files, out=tmp_path / "store")
    for number, stage in enumerate((tmp_path / ".store.stages").iterdir()):
        content = stage.read_bytes()
        stage.write_bytes(content[:40] if number % 2 else content[:-200] + bytes(100) + content[-100:])
    again = build_store(**files, out=tmp_path / "store")
    np.testing.assert_array_equal(again.vectors(ANIMALS), whole.vectors(ANIMALS))


def test_a_changed_file_is_read_again(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "combine", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build_store(**files, out=tmp_path / "store")
    with files["glove"].open("a") as stream:
        stream.write("newcomer 1 2 3 4 5 6\n")
    stages: list[str] = []
    store = build_store(**files, out=tmp_path / "store", report=lambda stage, *_: stages.append(stage))
    assert "newcomer" in store
    assert "reading GloVe" in stages
    assert "reading word2vec" not in stages


def test_a_failed_build_keeps_the_old_store(files: dict[str, Path], tmp_path: Path) -> None:
    build_store(**files, out=tmp_path / "store")
    files["conceptnet"].write_text("no graph\n")
    with pytest.raises(UserError, match=r"graph\.csv line 1"):
        build_store(**files, out=tmp_path / "store")
    assert "dog" in VectorStore.open(tmp_path / "store")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"relations": {}}, "name at least one relation"),
        ({"relations": {"IsA": -1.0}}, "positive weight"),
        ({"settings": BuildSettings(dim=1)}, "at least 2"),
        ({"settings": BuildSettings(iterations=-1)}, "not be negative"),
        ({"max_words": 1}, "max_words = 1"),
    ],
)
def test_bad_settings_are_refused(files: dict[str, Path], tmp_path: Path, bad: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_store(**files, out=tmp_path / "store", **bad)


def test_a_folder_with_other_files_is_refused_before_the_build_starts(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(UserError, match="exists and is not a vector store"):
        build_store(**files, out=tmp_path / "mine", report=lambda *_: pytest.fail("the build started"))
