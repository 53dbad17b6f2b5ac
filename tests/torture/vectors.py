"""Damaged vector files and stores: vectors that are whole, or one sentence; a changed store is never accepted."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from semco.labels.build import RELATIONS, BuildSettings, build_store
from semco.labels.build.readers.conceptnet import read_conceptnet
from semco.labels.build.readers.glove import read_glove
from semco.labels.build.readers.word2vec import read_word2vec
from semco.labels.sources import AttributeSource, MatrixSource, store_source
from semco.labels.store import VectorStore
from torture.attack import Attack, Case, Failure
from torture.mutations import NASTY_JSON, damage, edit_json, write_text

WORDS = ("dog", "wolf", "cat", "lion", "car", "bus", "boat", "chair", "animal", "vehicle", "apple", "crème_brûlée")
NAMES = WORDS[:8]
SETTINGS = BuildSettings(dim=5, iterations=3)
HEADERS = (
    b"5 100000000000\n", b"100000000000 5\n", b"0 0\n", b"1 1\n", b"-1 5\n", b"5 0\n", b"99999999999999999999 6\n",
    b"12 5000000\n", b"12\n", b"12 6 6\n", b"\xff\xfe\n", b"6 12\n", b"12 60000\n",
)  # fmt: skip
NUMBERS = (
    b"nan",
    b"inf",
    b"1e999",
    b"1e-999",
    b"x",
    b"",
    b"1,5",
    b"0x10",
    b"1_0",
    b"9" * 6000,
    b"--1",
    b"\x00",
    b"1e38",
)


@dataclass(frozen=True)
class Originals:
    files: dict[str, bytes]
    stores: tuple[Path, ...]
    expected: dict[Path, Any]


def prepare(folder: Path) -> Originals:
    files = vector_files()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    plain, compact = folder / "store", folder / "compact-store"
    store = build_store(folder / "glove.txt", folder / "word2vec.bin", folder / "graph.csv", plain, settings=SETTINGS)
    terms = list(store.terms())
    ranks = [store.rank(i) for i in range(store.size)]
    VectorStore.write(compact, terms, store.vectors(terms), ranks, {"default_eps": 0.3}, compact=True)
    return Originals(files, (plain, compact), {each: content_of(each) for each in (plain, compact)})


def vector_files() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    rows = {word: rng.normal(size=6) for word in WORDS}
    lines = [f"{word} {' '.join(f'{x:.5f}' for x in row)}\n" for word, row in rows.items()]
    binary = b"".join(word.encode() + b" " + struct.pack("<6f", *row) + b"\n" for word, row in rows.items())
    edges = [("IsA", word, "animal" if i < 4 else "vehicle") for i, word in enumerate(NAMES)] + [
        ("Synonym", "dog", "hound")
    ]
    graph = "".join(f"/a/x\t/r/{r}\t/c/en/{a}\t/c/en/{b}\t{json.dumps({'weight': 1.0})}\n" for r, a, b in edges)
    matrix = np.stack([rows[name] for name in NAMES])
    return {
        "glove.txt": "".join(lines).encode(),
        "word2vec.bin": f"{len(rows)} 6\n".encode() + binary,
        "graph.csv": graph.encode(),
        "matrix.npy": npy(matrix),
        "matrix.csv": "".join(
            f"{name},{','.join(map(str, row))}\n" for name, row in zip(NAMES, matrix, strict=True)
        ).encode(),
        "matrix.npz": npz(matrix),
    }


def npy(matrix: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, matrix)
    return stream.getvalue()


def npz(matrix: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, matrix=matrix)
    return stream.getvalue()


def content_of(store: Path) -> Any:
    """Return what a store says: its terms, their vectors and neighbours, and its default eps."""
    source = store_source(store)
    terms = list(source.store.terms())
    embeddings = source.vectors(NAMES)
    found = [
        source.store.vectors(terms).tolist(),
        embeddings.matrix.tolist(),
        source.store.nearest(embeddings.matrix[0], 3),
    ]
    return [terms, *found, embeddings.terms, embeddings.default_eps]


def case(case: Case) -> str:
    return store_case(case) if case.random.random() < 0.5 else file_case(case)


def store_case(case: Case) -> str:
    """A copy of a store with one damaged file."""
    random, original = case.random, case.random.choice(case.originals.stores)
    store = case.folder / "store"
    shutil.copytree(original, store)
    path = store / random.choice(sorted(file.name for file in store.iterdir()))
    way = random.random()
    if path.suffix == ".json" and way < 0.6:
        write_text(path, edit_json(random, path.read_text()))
    elif path.suffix == ".json" and way < 0.7:
        write_text(path, random.choice(NASTY_JSON))
    elif way < 0.8:
        path.write_bytes(damage(random, path.read_bytes()))
    elif way < 0.9:
        swap_same_size(random, path)
    else:
        replace_file(random, path)
    if json.dumps(content_of(store)) != json.dumps(case.originals.expected[original]):
        raise Failure(f"silently accepted: a store with a changed {path.name}")
    return "right"


def swap_same_size(random: Random, path: Path) -> None:
    """Change bytes after the first 100, so that size and header stay as they are."""
    content = bytearray(path.read_bytes())
    at = random.randrange(min(100, len(content) - 1), len(content))
    content[at] ^= 1 << random.randrange(8)
    path.write_bytes(bytes(content))


def replace_file(random: Random, path: Path) -> None:
    path.unlink()
    way = random.choice(("gone", "folder", "dangling", "loop"))
    if way == "folder":
        path.mkdir()
    elif way != "gone":
        path.symlink_to("nothing" if way == "dangling" else path.name)


def file_case(case: Case) -> str:
    random = case.random
    name = random.choice(sorted(case.originals.files))
    content = case.originals.files[name]
    content = random.choice((damage, damage, odd_numbers, odd_header))(random, content)
    path = case.folder / name
    path.write_bytes(packed(random, content) if not name.startswith("matrix") else content)
    READERS[name](random, path)
    return "read"


def odd_numbers(random: Random, content: bytes) -> bytes:
    """Replace one to three fields of a text file."""
    separator = next((mark for mark in (b"\t", b",", b" ") if mark in content), b"\n")
    fields = content.split(separator)
    for _ in range(random.choice((1, 1, 3))):
        fields[random.randrange(len(fields))] = random.choice(NUMBERS)
    return separator.join(fields)


def odd_header(random: Random, content: bytes) -> bytes:
    return random.choice(HEADERS) + (content if random.random() < 0.5 else content.partition(b"\n")[2])


def packed(random: Random, content: bytes) -> bytes:
    """Return the content as it is or compressed, and then sometimes damaged."""
    way = random.choice(("plain", "plain", "gzip", "zip", "odd zip"))
    if way == "gzip":
        return maybe_damaged(random, gzip.compress(content, mtime=0))
    if way == "plain":
        return content
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("vectors.txt"), content)
    data = bytearray(stream.getvalue())
    if way == "odd zip":  # encrypted, or compressed in an unknown way
        offset, value = random.choice(((8, 1), (10, 99), (10, 9)))
        data[data.find(b"PK\x01\x02") + offset] = data[offset - 2] = value
    return maybe_damaged(random, bytes(data))


def maybe_damaged(random: Random, content: bytes) -> bytes:
    return damage(random, content) if random.random() < 0.5 else content


def check_vectors(found: Any) -> None:
    if found.matrix.shape[0] != len(found.terms) or not np.isfinite(found.matrix).all():
        raise Failure("vectors that are not finite, or not one per term, were accepted", str(found.matrix.shape))


def read_glove_file(_random: Random, path: Path) -> None:
    check_vectors(read_glove(path))


def read_word2vec_file(_random: Random, path: Path) -> None:
    check_vectors(read_word2vec(path))


def read_graph_file(_random: Random, path: Path) -> None:
    edges = read_conceptnet(path, RELATIONS)
    ends = np.concatenate([edges.start, edges.end])
    if len(ends) and not (ends.min() >= 0 and ends.max() < len(edges.terms) and np.isfinite(edges.weight).all()):
        raise Failure("edges between terms that do not exist were accepted")


def read_matrix_file(random: Random, path: Path) -> None:
    source = MatrixSource(path) if random.random() < 0.6 else AttributeSource(path, 4)
    embeddings = source.vectors(NAMES)
    lengths = np.linalg.norm(embeddings.matrix, axis=1)
    if embeddings.matrix.shape[0] != len(NAMES) or not np.allclose(lengths, 1, atol=1e-3):
        raise Failure("label vectors that are not of length 1 were accepted", str(lengths))


READERS: dict[str, Callable[[Random, Path], None]] = {
    "glove.txt": read_glove_file,
    "word2vec.bin": read_word2vec_file,
    "graph.csv": read_graph_file,
    "matrix.npy": read_matrix_file,
    "matrix.csv": read_matrix_file,
    "matrix.npz": read_matrix_file,
}

ATTACK = Attack("vectors", cases=2000, minutes=1, case=case, prepare=prepare, memory=1 << 30)
