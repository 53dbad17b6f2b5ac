from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semco.errors import UserError
from semco.labels.store import VectorStore, unit_rows, with_checksums

TERMS = ["zebra", "apple", "crème_brûlée", "aardvark", "apple_tree", "日本"]


@pytest.fixture
def matrix() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(len(TERMS), 5)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path, matrix: np.ndarray) -> Path:
    VectorStore.write(tmp_path / "store", TERMS, matrix, range(len(TERMS)), {"default_eps": 0.35, "sources": {"a": 1}})
    return tmp_path / "store"


def test_every_term_comes_back_with_its_own_unit_vector_and_rank(folder: Path, matrix: np.ndarray) -> None:
    store = VectorStore.open(folder)
    assert (store.size, len(store), store.dim, store.default_eps) == (6, 6, 5, 0.35)
    assert store.header["sources"] == {"a": 1}
    assert list(store.terms()) == sorted(TERMS)
    for i, term in enumerate(TERMS):
        place = store.index(term)
        assert place is not None
        assert store.terms()[place] == term == store.term(place)
        assert store.rank(place) == i
        np.testing.assert_allclose(store.vector(term), matrix[i] / np.linalg.norm(matrix[i]), atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(store.vectors(TERMS), axis=1), 1, atol=1e-6)


def test_absent_terms_are_absent(folder: Path) -> None:
    store = VectorStore.open(folder)
    for term in ("", "a", "applf", "appl", "apple_", "zzz", "\udcff"):
        assert term not in store
    with pytest.raises(UserError, match="'quince' is not in the vector store"):
        store.vector("quince")


def test_nearest_equals_a_full_sort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semco.labels.store._CHUNK", 7)
    rows = np.random.default_rng(1).normal(size=(40, 6)).astype(np.float32)
    names = [f"t{i:02d}" for i in range(40)]
    VectorStore.write(tmp_path / "s", names, rows, range(40), {})
    found = VectorStore.open(tmp_path / "s").nearest(rows[3], n=12)
    cosines = unit_rows(rows) @ unit_rows(rows[3:4])[0]
    expected = np.argsort(-cosines)[:12]
    assert [term for term, _ in found] == [names[i] for i in expected]
    np.testing.assert_allclose([c for _, c in found], cosines[expected], atol=2e-3)
    assert len(VectorStore.open(tmp_path / "s").nearest(rows[3], n=100)) == 40


def test_equal_neighbours_are_ordered_by_frequency(tmp_path: Path) -> None:
    VectorStore.write(tmp_path / "s", ["a", "b", "c"], np.ones((3, 2), np.float32), [2, 0, 1], {})
    assert [term for term, _ in VectorStore.open(tmp_path / "s").nearest(np.ones(2))] == ["b", "c", "a"]


def test_zero_rows_stay_zero(tmp_path: Path) -> None:
    VectorStore.write(tmp_path / "s", ["a", "b"], np.array([[0.0, 0.0], [3.0, 4.0]], np.float32), [0, 1], {})
    np.testing.assert_allclose(VectorStore.open(tmp_path / "s").vectors(["a", "b"]), [[0, 0], [0.6, 0.8]], atol=1e-3)


def test_a_store_is_replaced_as_a_whole(folder: Path) -> None:
    VectorStore.write(folder, ["only"], np.ones((1, 3)), [0], {})
    assert list(VectorStore.open(folder).terms()) == ["only"]
    assert [path.name for path in folder.parent.iterdir()] == ["store"]


def test_a_failed_write_leaves_the_old_store_and_nothing_else(folder: Path) -> None:
    with pytest.raises(TypeError):
        VectorStore.write(folder, ["only"], np.ones((1, 3)), [0], {"bad": object()})
    assert list(VectorStore.open(folder).terms()) == sorted(TERMS)
    assert [path.name for path in folder.parent.iterdir()] == ["store"]


def test_a_store_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[Path] = []
    monkeypatch.setattr("semco.files.flush_to_disk", flushed.append)
    VectorStore.write(tmp_path / "store", ["a"], np.eye(1), [0], {})
    assert {path.name for path in flushed[:-2]} == {path.name for path in (tmp_path / "store").iterdir()}
    assert flushed[-1] == tmp_path


def test_temporary_folders_of_a_killed_process_are_removed_and_nothing_else(folder: Path) -> None:
    left = folder.with_name(f".{folder.name}.ab_12xyz.part")
    others = [folder.with_name(f".{folder.name}.notes.part"), folder.with_name(".other.ab_12xyz.part")]
    for path in (left, *others):
        path.mkdir()
        (path / "file").write_text("x")
    VectorStore.write(folder, ["a"], np.eye(1), [0], {})
    assert not left.exists()
    assert all((path / "file").exists() for path in others)


def test_a_folder_with_other_things_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"x")
    with pytest.raises(UserError, match="exists and is not a vector store"):
        VectorStore.write(tmp_path / "photos", ["a"], np.ones((1, 2)), [0], {})


@pytest.mark.parametrize("name", ["vectors.npy", "offsets.npy", "ranks.npy", "terms.bin"])
@pytest.mark.parametrize("keep", [0, 10, -1])
def test_a_truncated_file_is_named(folder: Path, name: str, keep: int) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=rf"damaged \({name}"):
        VectorStore.open(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "ranks.npy").unlink()
    with pytest.raises(UserError, match=r"ranks\.npy has None bytes"):
        VectorStore.open(folder)


def test_other_folders_are_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UserError, match="is not a vector store"):
        VectorStore.open(tmp_path)
    for text, message in (
        (edited(folder, format=99), "was made by an earlier version of SemCo; build it again"),
        (edited(folder, crc32={}), "lacks the checksums"),
        (resealed(folder, size=5), r"vectors\.npy contains float16 of shape \(6, 5\), and not \(5, 5\)"),
        (resealed(folder, size="6"), "lacks the sizes"),
        (resealed(folder, files=3), "has 188 bytes instead of None"),
        (json.dumps([1]), "contains a list, not a JSON object"),
        ("[" * 100_000, "nested too deep"),
        ("{", "not valid JSON"),
    ):
        (folder / "header.json").write_text(text)
        with pytest.raises(UserError, match=message):
            VectorStore.open(folder)


@pytest.mark.parametrize("eps", ["0.2", True, None, [1], -0.1, 1e300, float("nan"), float("inf"), {}])
def test_a_default_eps_that_is_no_distance(folder: Path, eps: object) -> None:
    (folder / "header.json").write_text(resealed(folder, default_eps=eps))
    with pytest.raises(UserError, match=r"damaged \(the default_eps .* is not a number from 0 to 2"):
        VectorStore.open(folder)


def edited(folder: Path, **changes: Any) -> str:
    """Return the header with other values, without new checksums."""
    return json.dumps(json.loads((folder / "header.json").read_text()) | changes)


def resealed(folder: Path, **changes: Any) -> str:
    """Return the header with other values, and checksums that fit the files as they are now."""
    return json.dumps(with_checksums(folder, json.loads(edited(folder, **changes))))


def use(folder: Path) -> None:
    """Read everything of a store."""
    store = VectorStore.open(folder)
    for term in store.terms():
        assert store.index(term) is not None
    store.vectors(store.terms())
    store.nearest(np.ones(store.dim), 3)


@pytest.mark.parametrize("name", ["header.json", "vectors.npy", "offsets.npy", "ranks.npy", "terms.bin"])
def test_every_changed_byte_is_noticed(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    values = json.loads(content) if name == "header.json" else None
    for position in range(len(content)):
        changed = content[:position] + bytes([content[position] ^ 0x04]) + content[position + 1 :]
        (folder / name).write_bytes(changed)
        with contextlib.suppress(ValueError):
            if json.loads(changed) == values:
                continue  # a space of the header
        with pytest.raises(UserError, match=r"header|damaged|JSON|earlier version"):
            use(folder)


@pytest.mark.parametrize("name", ["vectors.npy", "offsets.npy", "ranks.npy", "terms.bin"])
def test_changed_bytes_with_new_checksums_are_a_sentence_or_unnoticed(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    for position in range(len(content)):
        (folder / name).write_bytes(content[:position] + bytes([content[position] ^ 0x84]) + content[position + 1 :])
        (folder / "header.json").write_text(resealed(folder))
        with contextlib.suppress(UserError, AssertionError):
            use(folder)


def test_a_store_cannot_be_written_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"cannot write .*file/store"):
        VectorStore.write(tmp_path / "file" / "store", ["a"], np.ones((1, 2)), [0], {})


def test_named_pipes_are_not_opened(folder: Path) -> None:
    for name in ("terms.bin", "header.json"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(UserError, match=r"terms\.bin has None bytes|header\.json is a named pipe"):
            VectorStore.open(folder)


def test_damaged_arrays_are_refused(folder: Path) -> None:
    path = folder / "vectors.npy"
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(UserError, match="damaged"):
        VectorStore.open(folder)


def test_a_compact_store_is_half_as_large_and_nearly_the_same(tmp_path: Path) -> None:
    rows = unit_rows(np.random.default_rng(5).normal(size=(300, 128)).astype(np.float32))
    rows[7] = 0
    names = [f"t{i:03d}" for i in range(300)]
    VectorStore.write(tmp_path / "s", names, rows, range(300), {}, compact=True)
    store = VectorStore.open(tmp_path / "s")
    assert (tmp_path / "s" / "vectors.npy").stat().st_size == 128 + 300 * 128
    found = store.vectors(names)
    np.testing.assert_allclose(found @ found.T, rows @ rows.T, atol=5e-3)
    np.testing.assert_array_equal(found[7], 0)
    assert store.nearest(rows[3], 1)[0][0] == "t003"
