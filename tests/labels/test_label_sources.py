"""The contract of label sources, and the files they read."""

from __future__ import annotations

import subprocess
import sys
from hashlib import shake_256
from pathlib import Path

import numpy as np
import pytest

from semco.config import LabelsConfig
from semco.data.names import NONE_OF_THESE
from semco.errors import UserError
from semco.groups.grouping import group_classes
from semco.labels import LabelSource, label_source
from semco.labels.embeddings import centred
from semco.labels.eps import FALLBACK, families, sibling_eps
from semco.labels.sources import ROTATED_COSINE, principal_components, rotated
from semco.labels.store import VectorStore
from semco.labels.tables import CUB_FILE, read_rows

NAMES = ("cat", "dog", "oak tree", "pine tree", "car")
RNG = np.random.default_rng(3)
VALUES = RNG.normal(size=(5, 7))
SOURCES = ("store", "attributes", "matrix.npy", "matrix.csv")


def csv(names: tuple[str, ...] | None, values: np.ndarray) -> str:
    labels = names or ("",) * len(values)
    rows = (
        ",".join([*([name] if name else []), *map(repr, row)])
        for name, row in zip(labels, values.tolist(), strict=True)
    )
    return "\n".join(rows) + "\n"


def make(kind: str, folder: Path) -> LabelSource:
    if kind == "store":
        terms = ["cat", "dog", "oak", "pine", "tree", "car"]
        VectorStore.write(folder / "s", terms, RNG.normal(size=(6, 7)), range(6), {"default_eps": 0.25})
        return label_source(LabelsConfig(source="store", path=folder / "s"))
    path = folder / kind if "." in kind else folder / "a.csv"
    if path.suffix == ".npy":
        np.save(path, VALUES)
    else:
        path.write_text(csv(NAMES, VALUES))
    return label_source(LabelsConfig(source="attributes" if kind == "attributes" else "matrix", path=path))


@pytest.mark.parametrize("kind", SOURCES)
def test_contract(kind: str, tmp_path: Path) -> None:
    found = make(kind, tmp_path).vectors(NAMES)
    assert found.names == NAMES
    assert found.matrix.shape[0] == len(found.terms) == len(found.routes) == 5
    assert found.matrix.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found.matrix, axis=1), 1, atol=1e-6)
    assert 0 < found.default_eps < 2
    assert found.source
    assert all(found.terms)
    assert all(found.routes)


@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind != "matrix.npy"])
def test_the_order_of_names_does_not_change_the_vectors(kind: str, tmp_path: Path) -> None:
    source = make(kind, tmp_path)
    forward, backward = source.vectors(NAMES), source.vectors(NAMES[::-1])
    np.testing.assert_array_equal(forward.matrix, backward.matrix[::-1])


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("names", [("cat", "cat"), ("cat", ""), ()])
def test_bad_names(kind: str, names: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"twice|empty|no class names"):
        make(kind, tmp_path).vectors(names)


def test_a_mean_of_words_is_the_unit_mean(tmp_path: Path) -> None:
    found = make("store", tmp_path).vectors(NAMES)
    store = VectorStore.open(tmp_path / "s")
    mean = (store.vector("oak") + store.vector("tree")) / 2
    np.testing.assert_allclose(found.matrix[2], mean / np.linalg.norm(mean), atol=1e-6)
    assert found.terms[2] == "oak+tree"
    assert found.default_eps == 0.25
    assert found.source == "store s (7-d, 6 terms)"


def test_classes_with_the_same_term_get_different_vectors(tmp_path: Path) -> None:
    make("store", tmp_path)
    config = LabelsConfig(source="store", path=tmp_path / "s", aliases={"hound": "dog", "cta": "cat"})
    found = label_source(config).vectors(["dog", "hound", "dogs"])
    cosines = found.matrix @ found.matrix.T
    off = cosines[~np.eye(3, dtype=bool)]
    assert off.max() < 0.9801
    assert cosines[0, 1] == pytest.approx(ROTATED_COSINE, abs=1e-5)
    assert len(found.notes) == 3
    assert found.notes[-1] == "the alias 'cta' belongs to no class."


def test_unknown_names_get_vectors_that_are_close_to_nobody() -> None:
    names = ("dog", "cat", "xqzzt", "SKU-1042", "zzyzx", "qwrtz")
    embeddings = label_source(LabelsConfig()).vectors(names)
    unknown = embeddings.matrix[2:]
    assert embeddings.routes[2:] == ("own vector",) * 4
    assert np.allclose(np.linalg.norm(unknown, axis=1), 1, atol=1e-6)
    cosines = embeddings.matrix @ unknown.T - np.eye(len(names))[:, 2:]
    assert np.abs(cosines).max() < 0.4
    # The same on every machine: the first bits of SHAKE-256 of the name, as signs.
    assert (unknown[2] > 0)[:12].tolist() == [bit == "0" for bit in f"{shake_256(b'zzyzx').digest(2)[0]:08b}"] + [
        bit == "0" for bit in f"{shake_256(b'zzyzx').digest(2)[1]:08b}"
    ][:4]


def test_strict_names_stop_at_an_unknown_name() -> None:
    with pytest.raises(UserError, match="'zzyzx' is not in the vocabulary"):
        label_source(LabelsConfig(strict_names=True)).vectors(("dog", "zzyzx"))


def test_the_rotation_depends_only_on_the_name() -> None:
    vector = VALUES[0].astype(np.float32) / np.linalg.norm(VALUES[0]).astype(np.float32)
    moved = rotated(vector, "dogs")
    assert moved @ vector == pytest.approx(ROTATED_COSINE, abs=1e-6)
    assert np.linalg.norm(moved) == pytest.approx(1, abs=1e-6)
    np.testing.assert_array_equal(moved, rotated(vector, "dogs"))
    assert not np.allclose(moved, rotated(vector, "hounds"))


def test_all_principal_components_keep_all_distances() -> None:
    scores = principal_components(VALUES, 128)
    assert scores.shape == (5, 4)
    apart = np.linalg.norm(VALUES[:, None] - VALUES[None], axis=2)
    np.testing.assert_allclose(np.linalg.norm(scores[:, None] - scores[None], axis=2), apart, atol=1e-10)


def test_principal_components_against_the_covariance() -> None:
    values = RNG.normal(size=(40, 6)) * [5, 3, 1, 1, 1, 1]
    scores = principal_components(values, 2)
    centred = values - values.mean(axis=0)
    strength, directions = np.linalg.eigh(centred.T @ centred)
    expected = centred @ directions[:, ::-1][:, :2]
    np.testing.assert_allclose(np.abs(scores), np.abs(expected), atol=1e-9)
    np.testing.assert_allclose((scores**2).sum(axis=0), strength[::-1][:2], rtol=1e-9)


def cub(folder: Path, names: bool = True) -> Path:
    """Write files in CUB-200's format: numbers separated by spaces, the names in the parent folder."""
    (folder / "attributes").mkdir()
    path = folder / "attributes" / CUB_FILE
    path.write_text("\n".join(" ".join(f"{v:.9f}" for v in row) for row in RNG.uniform(0, 100, (200, 312))))
    if names:
        (folder / "classes.txt").write_text("".join(f"{i} {i:03d}.Some_Bird_{i}\n" for i in range(1, 201)))
    return path


def test_cub_files_are_read_without_changes(tmp_path: Path) -> None:
    path = cub(tmp_path)
    config = LabelsConfig(source="attributes", path=path)
    names = [f"{i:03d}.Some_Bird_{i}" for i in range(1, 201)]
    found = label_source(config).vectors(names)
    assert found.matrix.shape == (200, 128)
    some = label_source(config).vectors(["Some Bird 7", "003.Some_Bird_3"])
    np.testing.assert_array_equal(some.matrix, found.matrix[[6, 2]])
    assert found.source.startswith("attributes class_attribute_labels_continuous.txt (312, by PCA 128-d); eps 0.")


def test_cub_without_names_is_read_in_class_order(tmp_path: Path) -> None:
    config = LabelsConfig(source="attributes", path=cub(tmp_path, names=False))
    assert label_source(config).vectors([f"b{i}" for i in range(200)]).routes[0] == "attributes by order"
    with pytest.raises(UserError, match="200 rows without names, but there are 3 classes"):
        label_source(config).vectors(["a", "b", "c"])


@pytest.mark.parametrize(
    "text",
    [
        "name,x,y\ncat,1,2\ndog,3,4\n",
        "cat,1,2\ndog,3,4\n",
        "cat;1;2\r\ndog;3;4\r\n",
        "name\tx\ty\ncat\t1\t2\ndog\t3\t4\n",
        "\ufeffcat 1 2\n\ndog 3 4\n",
        '"cat", 1, 2\n"dog", 3, 4\n',
    ],
)
def test_tables(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    rows = read_rows(path)
    assert rows.names == ("cat", "dog")
    assert rows.values.tolist() == [[1, 2], [3, 4]]


def test_a_header_without_a_name_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,2\n3,4\n")
    assert read_rows(path).names is None
    assert read_rows(path).values.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("cat,1,2\ndog,3\n", "line 2: 1 numbers, but the first row has 2"),
        ("cat,1,2\ndog,3,x\n", "line 2: 'x' is not a number"),
        ("cat,1,2\ndog,3,nan\n", "row 2, column 2 is not a finite number"),
        ("cat,1,2\ncat,3,4\n", "two rows for 'cat'"),
        ("cat,0,0\ndog,3,4\ncar,1,1\n", "vector of class 'cat' is zero"),
        ("cat,1,2\ndgo,3,4\n", "no row for class 'dog'; did you mean 'dgo'"),
    ],
)
def test_bad_tables(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        label_source(LabelsConfig(source="matrix", path=path)).vectors(["cat", "dog"])


def test_equal_rows_get_a_note(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("cat,1,2\ndog,2,4\ncar,-1,1\ncow,3,6\n")
    found = label_source(LabelsConfig(source="matrix", path=path)).vectors(["dog", "cat", "car", "cow"])
    assert [note.split(" are")[0] for note in found.notes] == ["the vectors of 'cat' and 'cow' and 'dog'"]


def test_bad_arrays(tmp_path: Path) -> None:
    path = tmp_path / "m.npy"
    for bad in (np.ones(3), np.ones((2, 2, 2)), np.array([["a"]]), np.ones((0, 3))):
        np.save(path, bad)
        with pytest.raises(UserError, match="not a matrix of numbers"):
            read_rows(path)
    np.save(path, np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="not a NumPy array of numbers"):
        read_rows(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(UserError, match="not a NumPy array of numbers"):
        read_rows(path)
    with pytest.raises(UserError, match="is not a file"):
        read_rows(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"caf\xe9,1,2\n")
    with pytest.raises(UserError, match="UTF-8"):
        read_rows(tmp_path / "latin.csv")


def test_attributes_need_three_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("cat,1,2\ndog,3,4\n")
    with pytest.raises(UserError, match="needs at least 3"):
        label_source(LabelsConfig(source="attributes", path=path)).vectors(["cat", "dog"])


@pytest.mark.parametrize("source", ["store", "attributes", "matrix", "encoder"])
def test_a_source_without_its_file(source: str) -> None:
    with pytest.raises(UserError, match=rf"labels\.source = '{source}' needs"):
        label_source(LabelsConfig(source=source))


def test_names_and_stores_need_no_torch() -> None:
    code = (
        "import sys, semco.labels, semco.labels.sources, semco.labels.matching.lookup, semco.groups.explain,"
        " semco.groups.explain, semco.labels.encoder, semco.data.class_names, semco.cli.labels;"
        " assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_centre_is_subtracted_and_rows_are_normalised() -> None:
    """(0.6, 0.8) - (1, 0) is (-0.4, 0.8), of length sqrt(0.8); (0, -1) - (1, 0) is (-1, -1)."""
    matrix = np.array([[0.6, 0.8], [0.0, -1.0]], dtype=np.float32)
    result = centred(matrix, np.array([1.0, 0.0]))
    np.testing.assert_allclose(result, [[-0.4 / 0.8**0.5, 0.8 / 0.8**0.5], [-(0.5**0.5), -(0.5**0.5)]], atol=1e-6)
    assert result.dtype == np.float32


def test_rows_equal_to_the_centre_stay() -> None:
    """The difference has length zero and therefore no direction."""
    matrix = np.array([[0.6, 0.8], [0.6, 0.8]], dtype=np.float32)
    np.testing.assert_array_equal(centred(matrix, matrix.mean(axis=0)), matrix)


def test_centring_separates_similar_vectors() -> None:
    """Three vectors with cosines above 0.9 have negative cosines once their mean is subtracted."""
    close = np.array([[1.0, 0.2, 0.0], [1.0, -0.1, 0.2], [1.0, -0.1, -0.2]])
    close = (close / np.linalg.norm(close, axis=1, keepdims=True)).astype(np.float32)
    before, result = close @ close.T, centred(close, close.mean(axis=0))
    after = result @ result.T
    assert before.min() > 0.9
    assert after[~np.eye(3, dtype=bool)].max() < 0
    np.testing.assert_allclose(np.diag(after), 1.0, atol=1e-6)


def test_families_that_are_too_small_or_too_large_are_left_out() -> None:
    small = [(i, 100) for i in range(4)]
    right = [(i, 101) for i in (9, 3, 5, 7, 4, 4)]  # a repeated edge counts once
    large = [(i, 102) for i in range(51)]
    found = list(families(np.array(small + right + large)))
    assert [children.tolist() for children in found] == [[3, 4, 5, 7, 9]]


def test_eps_is_a_low_quantile_of_the_nearest_siblings() -> None:
    angles = np.array([0.0, 0.1, 0.3, 0.7, 1.5, 2.0])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    is_a = np.array([(i, 5) for i in range(5)])
    nearest = 1 - np.cos([0.1, 0.1, 0.2, 0.4, 0.8])
    expected = np.quantile(nearest, 0.1)
    assert sibling_eps(rows, np.ones(6, bool), is_a) == round(float(expected), 3)


def test_without_families_eps_is_that_of_the_paper() -> None:
    nobody = np.zeros((0, 2), np.int64)
    assert sibling_eps(np.eye(3, dtype=np.float32), np.ones(3, bool), nobody) == FALLBACK


@pytest.mark.parametrize("name", [NONE_OF_THESE, "Other", "none_of-these"])
def test_its_name_is_not_looked_up(name: str) -> None:
    source = label_source(LabelsConfig(strict_names=True))  # an unknown name would be an error
    found, alone = source.vectors(["dog", name, "car"]), source.vectors(["dog", "car"])
    np.testing.assert_array_equal(found.matrix[[0, 2]], alone.matrix)
    np.testing.assert_allclose(np.abs(found.matrix[1]), 128**-0.5, rtol=1e-6)
    assert found.names == ("dog", name, "car")
    assert (found.terms, found.routes[1]) == (("dog", "", "car"), "own vector")
    assert found.notes == alone.notes


def test_a_table_of_the_user_needs_no_row_for_it(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.asarray([[1.0, 0.0], [0.0, 1.0]]))
    found = label_source(LabelsConfig(source="matrix", path=tmp_path / "m.npy")).vectors(["cat", "dog", "other"])
    np.testing.assert_array_equal(found.matrix[:2], np.eye(2))
    np.testing.assert_allclose(np.abs(found.matrix[2]), 0.5**0.5, rtol=1e-6)


def test_it_is_in_no_group_whatever_eps_and_corrections_say(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.asarray([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]))
    source = label_source(LabelsConfig(source="matrix", path=tmp_path / "m.npy"))
    found = source.vectors(["other", "cat", "kitten", "car"])
    assert group_classes(found, 2.0).members == (("other",), ("cat", "kitten", "car"))
    assert group_classes(found, 0.1, together=[["other", "car"]]).members == (("other",), ("cat", "kitten"), ("car",))
