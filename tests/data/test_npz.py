"""Data sets in one NumPy file, and error messages for bad files."""

from __future__ import annotations

import io
import os
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semco.data.sources.npz import read_npz
from semco.errors import UserError

RNG = np.random.default_rng(0)


def arrays(**changes: Any) -> dict[str, Any]:
    """Return the content of a good file with changes; None leaves a key out."""
    content = {
        "x_train": RNG.integers(0, 256, (6, 8, 10, 3), dtype=np.uint8),
        "y_train": np.array([0, 1, -1, 1, 0, -1]),
        "x_test": RNG.integers(0, 256, (2, 8, 10, 3), dtype=np.uint8),
        "y_test": np.array([0, 1], dtype=np.uint8),
        "class_names": np.array(["cat", "dog"]),
        **changes,
    }
    return {key: value for key, value in content.items() if value is not None}


def write(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "data.npz"
    np.savez(path, **content)
    return path


def test_a_written_file_is_read(tmp_path: Path) -> None:
    content = arrays()
    data = read_npz(write(tmp_path, content))
    assert data.train_images.shape == (6, 3, 8, 10)
    assert data.train_images.is_contiguous()
    for n, row, column, channel in [(0, 0, 0, 0), (5, 7, 9, 2), (3, 2, 4, 1)]:
        assert data.train_images[n, channel, row, column] == content["x_train"][n, row, column, channel]
    assert data.train_labels.tolist() == [0, 1, -1, 1, 0, -1]
    assert data.test_labels is not None
    assert data.test_labels.tolist() == [0, 1]
    assert data.class_names == ("cat", "dog")


@pytest.mark.parametrize("shape", [(6, 8, 10), (6, 8, 10, 1)])
def test_grey_images_have_one_channel(tmp_path: Path, shape: tuple[int, ...]) -> None:
    grey = RNG.integers(0, 256, shape, dtype=np.uint8)
    data = read_npz(write(tmp_path, arrays(x_train=grey, x_test=None, y_test=None)))
    assert data.train_images.shape == (6, 1, 8, 10)
    assert np.array_equal(data.train_images[:, 0].numpy(), grey.reshape(6, 8, 10))


def test_test_images_are_optional(tmp_path: Path) -> None:
    data = read_npz(write(tmp_path, arrays(x_test=None, y_test=None)))
    assert data.test_images is None
    assert data.test_labels is None


def test_names_as_bytes(tmp_path: Path) -> None:
    assert read_npz(write(tmp_path, arrays(class_names=np.array([b"cat", b"dog"])))).class_names == ("cat", "dog")


BAD = {
    "missing x_train": ({"x_train": None}, "has no x_train; did you mean 'y_train'"),
    "missing names": ({"class_names": None}, "has no class_names. It contains: x_train, y_train, x_test, y_test"),
    "only y_test": ({"x_test": None}, "only one of x_test and y_test"),
    "float images": ({"x_train": np.zeros((6, 8, 10))}, "x_train has type float64, but images are uint8"),
    "channels first": ({"x_train": np.zeros((6, 3, 8, 10), np.uint8)}, "x_train has shape (6, 3, 8, 10)"),
    "flat": ({"x_train": np.zeros((6, 80), np.uint8)}, "x_train has shape (6, 80), but images are (N, H, W)"),
    "none at all": ({"x_train": np.zeros((0, 8, 10), np.uint8)}, "x_train has shape (0, 8, 10)"),
    "other test size": ({"x_test": np.zeros((2, 9, 10, 3), np.uint8)}, "x_test has shape (2, 9, 10, 3) and x_train"),
    "float labels": ({"y_train": np.zeros(6)}, "y_train has type float64, but labels are whole numbers"),
    "one label short": ({"y_train": np.zeros(5, int)}, "y_train has shape (5,), but 6 images need (6,)"),
    "column": ({"y_train": np.zeros((6, 1), int)}, "y_train has shape (6, 1), but 6 images need (6,)"),
    "too high": (
        {"y_train": np.array([0, 1, 2, 1, 0, 0])},
        "contains the label 2, but with 2 classes labels are -1 to 1",
    ),
    "too low": ({"y_train": np.array([0, 1, -2, 1, 0, 0])}, "contains the label -2"),
    "unlabelled test": (
        {"y_test": np.array([0, -1])},
        "y_test contains the label -1, but with 2 classes labels are 0 to 1",
    ),
    "one class": ({"class_names": np.array(["cat"]), "y_train": np.zeros(6, int)}, "has 1 class(es):"),
    "twice": ({"class_names": np.array(["cat", "cat"])}, "has two classes named 'cat'"),
    "nul": ({"class_names": np.array(["cat", "d\0og"])}, "cannot hold a NUL character"),
    "nameless": ({"class_names": np.array(["cat", " "])}, "a class with an empty name"),
    "numbers": ({"class_names": np.array([1, 2])}, "class_names must be a list of strings, not int64"),
    "objects": ({"class_names": np.array(["cat", "dog"], dtype=object)}, "it contains Python objects"),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_a_bad_file_gets_one_sentence(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write(tmp_path, arrays(**changes))
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        read_npz(path)
    assert str(path) in str(raised.value)


def test_not_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(b"hello")
    with pytest.raises(UserError, match=r"is not an \.npz archive"):
        read_npz(path)


def test_incomplete(tmp_path: Path) -> None:
    path = write(tmp_path, arrays())
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(UserError, match="is incomplete or damaged"):
        read_npz(path)


def test_damaged_inside(tmp_path: Path) -> None:
    path = write(tmp_path, arrays())
    content = bytearray(path.read_bytes())
    content[400] ^= 255  # in the pixels of x_train
    path.write_bytes(bytes(content))
    with pytest.raises(UserError, match=r"is incomplete or damaged \(Bad CRC"):
        read_npz(path)


def test_a_single_array(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    with path.open("wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(UserError, match=r"is not an \.npz archive"):
        read_npz(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        read_npz(tmp_path / "data.npz")


def npy(descr: str = "'|u1'", shape: str = "(6, 8, 10)", body: bytes = b"") -> bytes:
    """Return a .npy file with any header."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


def write_members(folder: Path, compression: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    """Write a good file in which some members have any content."""
    path = folder / "data.npz"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for key, value in arrays(x_test=None, y_test=None).items():
            stream = io.BytesIO()
            np.save(stream, value)
            archive.writestr(f"{key}.npy", members.get(key, stream.getvalue()))
    return path


MEMBERS = {
    "too large": (npy(shape="(1000000, 1000000)"), "its header describes 1,000,000,000,128 bytes, but it has 128"),
    "enormous": (npy(shape=f"({10**30},)"), "its header describes 1,000,000,"),
    "true": (npy(shape="(True,)", body=b"a"), "its shape (True,) is not made of whole numbers"),
    "negative": (npy(shape="(-1,)"), "its shape (-1,) is not made of whole numbers"),
    "float": (npy(shape="(1.5,)"), "it is not a .npy array"),
    "no npy": (b"hello, this is text", "x_train.npy cannot be read as a plain array: it is not a .npy array"),
    "empty": (b"", "it is not a .npy array"),
    "longer": (npy(body=b"a" * 481), "its header describes 608 bytes, but it has 609"),
    "records": (npy("[('a', '<i4')]"), "is not plain"),
    "objects": (npy("'|O'"), "it contains Python objects"),
    "no type": (npy("'|q9'"), "it is not a .npy array"),
    "empty text": (npy("'<U0'", shape="(1000000000000,)"), "its type <U0 is not plain"),
    "deep": (npy(shape="(" * 5000), "it is not a .npy array"),
    "version": (b"\x93NUMPY\x09\x00" + npy()[8:], "version (9, 0) of the .npy format is not read"),
}


@pytest.mark.parametrize(("content", "message"), MEMBERS.values(), ids=MEMBERS)
def test_a_member_that_is_no_plain_array(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        read_npz(write_members(tmp_path, x_train=content))
    assert "data.npz: x_train.npy" in str(raised.value)


@pytest.mark.parametrize(
    "names",
    [
        npy("'<U1'", "(2,)", struct.pack("<II", 0x110000, 0x41)),
        npy("'<U1'", "(2,)", struct.pack("<II", 0xFFFFFFFF, 0x41)),
        npy("'|S1'", "(2,)", b"\xe9A"),
    ],
)
def test_names_that_are_not_text(tmp_path: Path, names: bytes) -> None:
    with pytest.raises(UserError, match=r"data\.npz: class_names contains a name that is not valid text"):
        read_npz(write_members(tmp_path, class_names=names))


@pytest.mark.parametrize("kind", ["timedelta64[s]", "datetime64[s]"])
def test_labels_that_are_times(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, arrays(y_train=np.zeros(6, dtype=kind)))
    with pytest.raises(UserError, match=rf"y_train has type {re.escape(kind)}, but labels are whole numbers"):
        read_npz(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression(tmp_path: Path, method: int) -> None:
    with pytest.raises(UserError, match=rf"x_train\.npy is compressed by method {method}, not by deflate"):
        read_npz(write_members(tmp_path, method))


def patched(path: Path, offset: int, value: bytes) -> Path:
    """Change bytes of the first member, at an offset in its entry of the central directory."""
    content = bytearray(path.read_bytes())
    start = content.index(b"PK\x01\x02") + offset
    content[start : start + len(value)] = value
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (8, b"\x01", r"x_train\.npy is encrypted"),
        (10, b"\x63", r"x_train\.npy is compressed by method 99"),
        (24, b"\xff\xff\xff\x7f", r"x_train\.npy cannot have the 2,147,483,647 bytes that it announces"),
        (6, b"\xff", "zip file version 25.5"),
        (42, b"\x07", "Bad magic number"),
    ],
)
def test_members_that_cannot_be_opened(tmp_path: Path, offset: int, value: bytes, message: str) -> None:
    path = patched(write_members(tmp_path), offset, value)
    with pytest.raises(UserError, match=rf"data\.npz is not an \.npz archive, is incomplete or damaged \({message}"):
        read_npz(path)


def test_compressed_arrays_and_arrays_in_fortran_order_are_read(tmp_path: Path) -> None:
    content = arrays()
    np.savez_compressed(tmp_path / "data.npz", **{**content, "x_train": np.asfortranarray(content["x_train"])})
    expected = content["x_train"].transpose(0, 3, 1, 2)
    assert np.array_equal(read_npz(tmp_path / "data.npz").train_images.numpy(), expected)


def test_a_named_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "data.npz")
    with pytest.raises(UserError, match=r"data\.npz is a named pipe, not a regular file"):
        read_npz(tmp_path / "data.npz")
