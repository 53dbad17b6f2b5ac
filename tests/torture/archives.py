"""Damaged data sets: .npz files and CIFAR pickles give a consistent data set or are refused."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from semco.config import DataConfig
from semco.data.datasets import Dataset
from semco.data.sources import load
from torture.attack import Attack, Case, Failure
from torture.mutations import NASTY_NUMBERS, NASTY_TEXT, damage
from torture.originals import small_arrays

CIFAR_FILES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta")
SHAPES = ("(10000000000000,)", "(True,)", "(-1,)", "(0,)", "()", "(4, 10**9)", "(2, 2", "None", "(1.5,)", "(10**30,)")
NUMBER_TYPES = ("f4", "f8", "i1", "u8", "i8", ">i4", "c8", "bool")
DTYPES = ("<m8[s]", "|O", "<f8", "<U4", "|S3", "<c16", "<M8[D]", "|V8", "|b1", ">i8", "<i1", "x", "|u1", "<f2")


@dataclass(frozen=True)
class Originals:
    archives: list[bytes]
    pickles: dict[str, bytes]


def prepare(_folder: Path) -> Originals:
    arrays = small_arrays()
    archives = []
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, **arrays)
        archives.append(stream.getvalue())
    return Originals(archives, {name: pickle.dumps(cifar_content(name)) for name in CIFAR_FILES})


def cifar_content(name: str) -> dict[bytes, Any]:
    if name == "batches.meta":
        return {b"label_names": [f"class {k}".encode() for k in range(10)]}
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3072), dtype=np.uint8)
    return {b"labels": [k % 10 for k in range(20)], b"data": pixels, b"filenames": [b"x.png"] * 20}


def case(case: Case) -> str:
    random = case.random
    if random.random() < 0.6:
        path = case.folder / "data.npz"
        make = random.choice((damaged_archive, odd_arrays, odd_members))
        path.write_bytes(make(random, case.originals))
        config = DataConfig(source=str(path))
    else:
        write_cifar(random, case.originals, case.folder)
        config = DataConfig(source="cifar10", root=case.folder)
    check(load(config))
    return "loaded"


def check(dataset: Dataset) -> None:
    """Raise a failure unless images, labels and names belong together."""
    classes = len(dataset.class_names)
    parts = [(dataset.train_images, dataset.train_labels, -1)]
    if dataset.test_images is not None:
        parts.append((dataset.test_images, dataset.test_labels, 0))
    for images, labels, lowest in parts:
        shapes = images.ndim == 4 and images.shape[1] in (1, 3) and labels.shape == (len(images),)
        if not shapes or images.dtype != torch.uint8 or labels.dtype != torch.int64:
            raise Failure("an inconsistent data set was accepted", f"{images.shape} {images.dtype} {labels.shape}")
        if len(labels) and not lowest <= int(labels.min()) <= int(labels.max()) < classes:
            raise Failure("labels without a class were accepted", f"{labels.min()} to {labels.max()} of {classes}")
    if classes < 1 or not all(isinstance(name, str) for name in dataset.class_names):
        raise Failure("class names that are not text were accepted", repr(dataset.class_names))
    assert len(dataset.mean) == len(dataset.std) == dataset.channels


def damaged_archive(random: Random, originals: Originals) -> bytes:
    return damage(random, random.choice(originals.archives), originals.archives)


def odd_arrays(random: Random, _originals: Originals) -> bytes:
    """A valid archive with one to three arrays of another type or shape."""
    arrays: dict[str, Any] = small_arrays()
    for _ in range(random.choice((1, 1, 2, 3))):
        name = random.choice(sorted(arrays))
        arrays[name] = odd_array(random, small_arrays()[name])
    if random.random() < 0.2:
        arrays[random.choice(("x_train ", "X_train", "a/../b", "", "é", "y_tset", "x" * 300))] = arrays.pop("x_train")
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def odd_array(random: Random, array: np.ndarray) -> Any:
    numbers = np.array([random.choice(NASTY_NUMBERS)] * len(array), dtype=object)
    texts = [text for text in NASTY_TEXT if "\ud800" not in text]
    choices = (
        lambda: array.astype(random.choice(("S10", "U10", *(() if array.dtype.kind == "U" else NUMBER_TYPES)))),
        lambda: np.zeros(len(array), random.choice(("m8[s]", "M8[D]", "V4", [("a", "i4"), ("b", "f4")]))),
        lambda: array[: random.randrange(len(array) + 1)],
        lambda: array.reshape(random.choice(((-1,), (1, *array.shape), (*array.shape, 1), (len(array), -1)))),
        lambda: np.full(array.shape, np.nan),
        lambda: numbers,
        lambda: np.array([str(n) for n in numbers]),
        lambda: np.array([random.choice(texts) for _ in range(4)]),
        lambda: np.array([b"\xff\xfe", b"a", b"b", b"c"]),
        lambda: np.array(random.choice((5, "text", None)), dtype=object if random.random() < 0.3 else None),
        lambda: np.full(len(array), random.choice((-2, -1, 3, 4, 2**62))),
        lambda: np.zeros((0, *array.shape[1:]), array.dtype),
        lambda: np.zeros((len(array), 0, 0, 3), np.uint8),
        lambda: np.zeros((len(array), 2, 2, 4), np.uint8),
        lambda: np.array([], dtype=array.dtype),
    )
    return random.choice(choices)()


def odd_members(random: Random, _originals: Originals) -> bytes:
    """A zip archive whose members are not what NumPy writes."""
    stream = io.BytesIO()
    arrays = small_arrays()
    odd = random.choice(sorted(arrays))
    with zipfile.ZipFile(
        stream, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    ) as file:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.save(member, array)
            ending = random.choice(("", ".npy.npy", ".txt")) if name == odd and random.random() < 0.2 else ".npy"
            file.writestr(name + ending, odd_member(random, member.getvalue()) if name == odd else member.getvalue())
        if random.random() < 0.2:
            file.writestr(random.choice(("x_train.npy", "../x.npy", "a" * 1000, "x_test.npy/")), b"text")
    data = bytearray(stream.getvalue())
    if random.random() < 0.3:  # another compression method, or marked as encrypted, in the central directory
        at = data.find(b"PK\x01\x02")
        local = data.find(b"PK\x03\x04")
        change, method = random.choice(((8, 1), (10, 99), (10, 9), (10, 14), (10, 12))), random.random() < 0.5
        data[at + change[0]] = change[1]
        data[local + change[0] - 2] = change[1] if method else data[local + change[0] - 2]
    return bytes(data)


def odd_member(random: Random, content: bytes) -> bytes:
    """Return a .npy file with an odd header, or something that is none."""
    way = random.choice(("shape", "dtype", "text", "damage", "version", "pickle", "order"))
    header = "{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if way == "text":
        return random.choice((b"", b"hello", b"\x93NUMPY", b"PK\x03\x04", b"\x80\x04N."))
    if way == "damage":
        return damage(random, content)
    if way == "version":
        return content[:6] + bytes([random.randrange(256), random.randrange(4)]) + content[8:]
    if way == "pickle":
        return pickle.dumps([1, 2, 3])
    shape = random.choice(SHAPES) if way == "shape" else "(160, 8, 8)"
    dtype = random.choice(DTYPES) if way == "dtype" else "|u1"
    text = header.format(
        dtype=dtype, order=random.choice(("True", "[]", "2")) if way == "order" else "False", shape=shape
    )
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n" + content[128:]


def write_cifar(random: Random, originals: Originals, folder: Path) -> None:
    """Write the files of CIFAR-10, one of them damaged or with odd content."""
    odd = random.choice(CIFAR_FILES)
    for name, content in originals.pickles.items():
        if name == odd:
            content = damage(random, content) if random.random() < 0.5 else odd_pickle(random, name)
        (folder / name).write_bytes(content)


class Trap:
    """Runs a command when it is unpickled by an unguarded reader."""

    def __reduce__(self) -> Any:
        return __import__("os").system, ("touch ../outside/trapped",)


def odd_pickle(random: Random, name: str) -> bytes:
    content: Any = cifar_content(name)
    key = random.choice(sorted(content))
    values = (
        2**70, "text", None, Trap(), {}, [2**70] * 20, [1.5] * 20, [True] * 20, [-1] * 20, [10] * 20, ["a"] * 20,
        [None] * 10, [[0]] * 20, b"", np.zeros((20, 3071), np.uint8), np.zeros((20, 3072)),
        np.zeros((0, 3072), np.uint8), np.array([Trap()], dtype=object), [b"\xff\xfe"] * 10, ["\ud800"] * 10,
        [b"same"] * 10,
        list(range(20)), [b""] * 10,
    )  # fmt: skip
    content[key] = random.choice(values)
    if random.random() < 0.05:  # lists in lists
        return b"\x80\x04" + b"]" * 50_000 + b"a" * 49_999 + b"."
    if random.random() < 0.1:
        content = random.choice((content[key], [content], {1: 2}, {"": content}, {None: 1}))
    return pickle.dumps(content, protocol=random.choice((2, 3, 4, 5)))


ATTACK = Attack("archives", cases=3000, minutes=1, case=case, prepare=prepare)
