"""Small files with the official CIFAR layout, and pickles that contain more than data."""

from __future__ import annotations

import builtins
import os
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from official_cifar import write_official

from semco.config import DataConfig
from semco.data.sources.cifar import CIFAR10, CIFAR100, read_cifar10, read_cifar100, read_plain_pickle
from semco.errors import UserError

RNG = np.random.default_rng(0)


def test_cifar10_joins_five_files(tmp_path: Path) -> None:
    folder = write_official(tmp_path, CIFAR10, classes=3)
    data = read_cifar10(DataConfig(source="cifar10", root=tmp_path))
    assert data.train_images.shape == (20, 3, 32, 32)
    assert data.test_images is not None
    assert data.test_images.shape == (4, 3, 32, 32)
    assert data.train_labels.tolist() == [0, 1, 2, 0] * 5
    assert data.class_names == ("class_0", "class_1", "class_2")
    third = pickle.loads((folder / "data_batch_3").read_bytes())[b"data"]
    # A row is the red plane, then the green, then the blue, each row by row.
    assert data.train_images[8, 1, 2, 5] == third[0, 1024 + 2 * 32 + 5]


def test_cifar100_has_fine_labels(tmp_path: Path) -> None:
    write_official(tmp_path, CIFAR100, classes=4)
    data = read_cifar100(DataConfig(source="cifar100", root=tmp_path))
    assert data.train_images.shape == (4, 3, 32, 32)
    assert data.train_labels.tolist() == [0, 1, 2, 3]


def test_the_root_may_be_the_official_folder_itself(tmp_path: Path) -> None:
    folder = write_official(tmp_path, CIFAR100, classes=4)
    below, itself = (read_cifar100(DataConfig(source="cifar100", root=root)) for root in (tmp_path, folder))
    assert below.train_images.equal(itself.train_images)


def test_progress_is_reported(tmp_path: Path) -> None:
    write_official(tmp_path, CIFAR10, classes=3)
    seen: list[tuple[str, int, int]] = []
    read_cifar10(DataConfig(source="cifar10", root=tmp_path), lambda *progress: seen.append(progress))
    assert seen[0] == ("reading cifar10", 0, 6)
    assert seen[-1] == ("reading cifar10", 6, 6)


def python2_pickle(array: np.ndarray) -> bytes:
    """Return a pickle as Python 2 wrote it: protocol 2, old module names, the rows as a byte string."""
    raw = array.tobytes()
    shape = b"".join(b"M" + n.to_bytes(2, "little") for n in array.shape)
    return (
        b"\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01(" + shape + b"tcnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89T" + len(raw).to_bytes(4, "little") + raw + b"tbs."
    )


def test_files_of_python_2_are_read(tmp_path: Path) -> None:
    rows = RNG.integers(0, 256, (2, 3072), dtype=np.uint8)
    written = python2_pickle(rows)
    names = {arg for op, arg, _ in pickletools.genops(written) if op.name == "GLOBAL"}
    assert names == {"numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"}
    (tmp_path / "batch").write_bytes(written)
    assert np.array_equal(read_plain_pickle(tmp_path / "batch")[b"data"], rows)


class Calls:
    """An object whose pickle calls a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    write_official(tmp_path, CIFAR100, classes=4)
    victim = tmp_path / "victim"
    attack = {"data": Calls(os.mkdir, str(victim))}
    (tmp_path / CIFAR100.folder / "train").write_bytes(pickle.dumps(attack, protocol=protocol))
    with pytest.raises(UserError, match=r"train is refused: it refers to \w+\.mkdir, .* download the official file"):
        read_cifar100(DataConfig(source="cifar100", root=tmp_path))
    assert not victim.exists()


@pytest.mark.parametrize("function", [builtins.eval, builtins.getattr, np.load, np.array, pickle.loads, os.system])
def test_every_other_name_is_refused(tmp_path: Path, function: Any) -> None:
    (tmp_path / "file").write_bytes(pickle.dumps(Calls(function, "x")))
    with pytest.raises(UserError, match=rf"refers to [\w.]+\.{function.__name__}"):
        read_plain_pickle(tmp_path / "file")


def test_attributes_of_allowed_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.")
    with pytest.raises(UserError, match=r"refers to numpy\.ndarray\.tofile"):
        read_plain_pickle(tmp_path / "file")


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\x80\x04", b"\x80\x04]}b.", b"\x80\x02cnumpy\ndtype\nK\x01\x85R.", b"\x80\x02P1\n.", b"(."],
)
def test_a_damaged_file_gives_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UserError, match="file is damaged"):
        read_plain_pickle(tmp_path / "file")


class TestWrongContent:
    def with_content(self, root: Path, file: str, content: Any) -> DataConfig:
        write_official(root, CIFAR100, classes=4)
        (root / CIFAR100.folder / file).write_bytes(pickle.dumps(content))
        return DataConfig(source="cifar100", root=root)

    @pytest.mark.parametrize(
        "content",
        [
            {},
            {"data": [1, 2], "fine_labels": [0, 1]},
            {"data": np.zeros((2, 3072)), "fine_labels": [0, 1]},
            {"data": np.zeros((2, 99), np.uint8), "fine_labels": [0, 1]},
            {"data": np.zeros((2, 3072), np.uint8), "fine_labels": [0]},
            {"data": np.zeros((2, 3072), np.uint8), "labels": [0, 1]},
        ],
    )
    def test_not_the_official_arrays(self, tmp_path: Path, content: Any) -> None:
        with pytest.raises(UserError, match="does not contain images and fine_labels"):
            read_cifar100(self.with_content(tmp_path, "train", content))

    def test_labels_that_are_not_numbers(self, tmp_path: Path) -> None:
        content = {"data": np.zeros((2, 3072), np.uint8), "fine_labels": ["a", "b"]}
        with pytest.raises(UserError, match="not a whole number"):
            read_cifar100(self.with_content(tmp_path, "train", content))

    @pytest.mark.parametrize("bits", [63, 70, 20_000])
    def test_labels_of_many_digits(self, tmp_path: Path, bits: int) -> None:
        content = {"data": np.zeros((2, 3072), np.uint8), "fine_labels": [0, 2**bits]}
        with pytest.raises(UserError, match="not a whole number of 64 bits"):
            read_cifar100(self.with_content(tmp_path, "train", content))

    def test_keys_of_another_type(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="does not contain images and fine_labels"):
            read_cifar100(self.with_content(tmp_path, "train", {2**20_000: 1, (1, 2): 2}))

    def test_labels_out_of_range(self, tmp_path: Path) -> None:
        content = {"data": np.zeros((2, 3072), np.uint8), "fine_labels": [0, 4]}
        with pytest.raises(UserError, match="contains the label 4"):
            read_cifar100(self.with_content(tmp_path, "train", content))

    def test_no_dictionary(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="does not contain a dictionary"):
            read_cifar100(self.with_content(tmp_path, "train", [1, 2]))

    def test_no_names(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="does not contain fine_label_names"):
            read_cifar100(self.with_content(tmp_path, "meta", {"fine_label_names": 3}))


def test_no_root() -> None:
    with pytest.raises(UserError, match=r"set data\.root to the folder that contains cifar-100-python/"):
        read_cifar100(DataConfig(source="cifar100"))


def test_a_root_without_the_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"contains no cifar-10-batches-py/ .* \(batches.meta is missing\)"):
        read_cifar10(DataConfig(source="cifar10", root=tmp_path))


def test_a_missing_file(tmp_path: Path) -> None:
    folder = write_official(tmp_path, CIFAR10, classes=3)
    (folder / "data_batch_4").unlink()
    with pytest.raises(UserError, match="data_batch_4 is missing"):
        read_cifar10(DataConfig(source="cifar10", root=tmp_path))


def test_a_named_pipe_is_not_opened(tmp_path: Path) -> None:
    folder = write_official(tmp_path, CIFAR10, classes=3)
    for name in ("data_batch_4", "batches.meta"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(UserError, match=rf"{name} is a named pipe, not a regular file"):
            read_cifar10(DataConfig(source="cifar10", root=tmp_path))


def test_a_pickle_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    """The position of an object in the unpickler's memory would make it reserve 64 GB."""
    (tmp_path / "file").write_bytes(b"\x80\x02}r\xff\xff\xff\xff.")
    with pytest.raises(UserError, match=r"file is damaged .* it stores an object at position 4294967295 of 9 bytes"):
        read_plain_pickle(tmp_path / "file")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([1, None], dtype=object), "an array does not contain plain bytes"),
        (np.array(["a"]), r"an array has the type <U1"),
        (np.zeros(2, dtype=[("a", "i4")]), r"an array has the type \|V4"),
        (np.zeros(2, dtype="m8[s]"), "an array has the type <m8"),
    ],
)
def test_arrays_of_other_types_are_refused(tmp_path: Path, array: np.ndarray, message: str) -> None:
    (tmp_path / "file").write_bytes(pickle.dumps({"data": array}, protocol=4))
    with pytest.raises(UserError, match=f"file is damaged .*{message}"):
        read_plain_pickle(tmp_path / "file")


@pytest.mark.parametrize("kind", ["u1", ">i4", "<f8"])
def test_arrays_of_numbers_are_read(tmp_path: Path, kind: str) -> None:
    array = np.asfortranarray(RNG.integers(0, 100, (3, 4))).astype(kind)
    (tmp_path / "file").write_bytes(pickle.dumps(array, protocol=4))
    found = read_plain_pickle(tmp_path / "file")
    assert found.dtype.kind == array.dtype.kind
    assert np.array_equal(found, array)


def test_an_array_of_another_size_than_its_shape_is_refused(tmp_path: Path) -> None:
    content = pickle.dumps(np.zeros((2, 3), np.uint8), protocol=4)
    (tmp_path / "file").write_bytes(content.replace(b"K\x02K\x03", b"K\x02K\x09"))
    with pytest.raises(UserError, match="an array does not have the size of its shape"):
        read_plain_pickle(tmp_path / "file")
