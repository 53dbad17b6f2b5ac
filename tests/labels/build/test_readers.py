from __future__ import annotations

import gzip
import json
import os
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semco.errors import UserError
from semco.labels.build.readers import stream
from semco.labels.build.readers.conceptnet import read_conceptnet
from semco.labels.build.readers.glove import read_glove
from semco.labels.build.readers.word2vec import read_word2vec

RELATIONS = {"IsA": 1.0, "Synonym": 2.0}
GLOVE = b"the 0.1 -0.2 3e-1\nDog 1 2 3\ncat -1 -2 -3\n"


def plain(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def gzipped(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data))
    return path


def zipped(path: Path, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("small.txt", b"x")
        archive.writestr("large.txt", data)
    return path


def word2vec_bytes(words: dict[str, list[float]], newline: bytes = b"") -> bytes:
    dim = len(next(iter(words.values())))
    body = b"".join(word.encode() + b" " + struct.pack(f"<{dim}f", *row) + newline for word, row in words.items())
    return f"{len(words)} {dim}\n".encode() + body


def edge(relation: str, start: str, end: str, weight: float | None = 1.0) -> bytes:
    info = {"dataset": "/d/test"} | ({} if weight is None else {"weight": weight})
    uri = f"/a/[/r/{relation}/,{start}/,{end}/]"
    return f"{uri}\t/r/{relation}\t{start}\t{end}\t{json.dumps(info)}\n".encode()


GRAPH = (
    edge("IsA", "/c/en/dog/n", "/c/en/animal", 2.0)
    + edge("Synonym", "/c/en/dog", "/c/en/hound/n/wn/animal", 0.5)
    + edge("IsA", "/c/fr/chien", "/c/en/animal")
    + edge("AtLocation", "/c/en/dog", "/c/en/kennel")
    + edge("IsA", "/c/en/the_cat", "/c/en/animal", None)
)


@pytest.mark.parametrize("pack", [plain, gzipped, zipped])
def test_glove_files_are_recognised_by_content(tmp_path: Path, pack: Callable[[Path, bytes], Path]) -> None:
    found = read_glove(pack(tmp_path / "vectors.anything", GLOVE))
    assert found.terms == ["the", "dog", "cat"]
    np.testing.assert_allclose(found.matrix, [[0.1, -0.2, 0.3], [1, 2, 3], [-1, -2, -3]], rtol=1e-6)
    assert (found.lines, found.duplicates, found.latin1, found.unusable) == (3, 0, 0, 0)


def test_glove_over_many_blocks_equals_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(200, 5)).round(4)
    text = "".join(f"w{i} {' '.join(map(str, row))}\n" for i, row in enumerate(rows)).encode()
    monkeypatch.setattr(stream, "BLOCK", 97)
    found = read_glove(plain(tmp_path / "v.txt", text.rstrip(b"\n")))  # the last line without its end
    assert found.terms == [f"w{i}" for i in range(200)]
    np.testing.assert_allclose(found.matrix, rows, rtol=1e-6)


def test_glove_reads_no_further_than_asked(tmp_path: Path) -> None:
    found = read_glove(plain(tmp_path / "v.txt", GLOVE), limit=2)
    assert found.terms == ["the", "dog"]
    assert found.matrix.shape == (2, 3)


def test_crlf_is_accepted(tmp_path: Path) -> None:
    found = read_glove(plain(tmp_path / "v.txt", GLOVE.replace(b"\n", b"\r\n")))
    assert found.terms == ["the", "dog", "cat"]
    np.testing.assert_allclose(found.matrix[2], [-1, -2, -3])


def test_the_first_of_equal_terms_is_kept(tmp_path: Path) -> None:
    found = read_glove(plain(tmp_path / "v.txt", b"dog 1 2\nDOG 3 4\ndog 5 6\ncat 7 8\n"))
    assert found.terms == ["dog", "cat"]
    np.testing.assert_allclose(found.matrix, [[1, 2], [7, 8]])
    assert found.duplicates == 2


def test_latin1_words_are_read_and_counted(tmp_path: Path) -> None:
    found = read_glove(plain(tmp_path / "v.txt", "café 1 2\ncat 3 4\n".encode("latin-1")))
    assert found.terms == ["café", "cat"]
    assert found.latin1 == 1


def test_words_with_spaces_and_quotes_are_words(tmp_path: Path) -> None:
    found = read_glove(plain(tmp_path / "v.txt", b'dog 1 2\n. . . 3 4\n" 5 6\nat name@x.com 7 8\n'))
    assert found.terms == ["dog", "._._.", '"', "at_name@x.com"]
    np.testing.assert_allclose(found.matrix[:, 1], [2, 4, 6, 8])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"w7 1 2", r"v\.txt line 7: expected a word and 3 numbers, found 2"),
        (b"w7 1 x 3", r"v\.txt line 7: expected a word and 3 numbers"),
        (b"w7 1 nan 3", r"v\.txt line 7: the vector of 'w7' contains NaN"),
        (b"w7 1 2 -inf", r"v\.txt line 7: the vector of 'w7' contains NaN or infinity"),
        (b"w7 1 2 1e99", r"v\.txt line 7: the vector of 'w7' contains NaN or infinity"),
        (b"w7", r"v\.txt line 7: expected a word and 3 numbers, found 0"),
    ],
)
@pytest.mark.parametrize("block", [stream.BLOCK, 16])
def test_a_bad_line_is_named(
    tmp_path: Path, line: bytes, message: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BLOCK", block)
    text = b"".join(b"w%d 1 2 3\n" % i for i in range(1, 7)) + line + b"\nw8 1 2 3\n"
    with pytest.raises(UserError, match=message):
        read_glove(plain(tmp_path / "v.txt", text))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"hello\n", b"\x00\x01\x02"])
def test_other_files_are_not_read_as_glove(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(UserError, match=r"v\.txt"):
        read_glove(plain(tmp_path / "v.txt", data))


@pytest.mark.parametrize("dim", [b"100000000000", b"9" * 6000, b"65536", b"4", b"0"])
def test_a_header_that_asks_for_other_dimensions(tmp_path: Path, dim: bytes) -> None:
    path = plain(tmp_path / "v.txt", b"2 " + dim + b"\ndog 1 2 3\ncat 4 5 6\n")
    tracemalloc.start()
    with pytest.raises(
        UserError, match=r"v\.txt line 1: the header announces \d+ dimensions, but the first vector has 3"
    ):
        read_glove(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000


def test_a_vector_of_too_many_numbers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"v\.txt line 1: a vector of 70000 numbers is too long"):
        read_glove(plain(tmp_path / "v.txt", b"dog" + b" 1" * 70_000 + b"\n"))


def test_an_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK", 1000)
    monkeypatch.setattr(stream, "LONGEST_LINE", 4000)
    with pytest.raises(UserError, match=r"v\.gz has a line of more than 4,000 bytes"):
        read_glove(gzipped(tmp_path / "v.gz", b"x" * 10_000))


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (8, b"\x01", "is encrypted"),
        (10, b"\x63", "is compressed by method 99"),
        (24, b"\xff\xff\xff\x7f", "cannot have the 2,147,483,647 bytes that it announces"),
        (6, b"\xff", "zip file version 25.5"),
    ],
)
def test_a_zip_member_that_cannot_be_opened(tmp_path: Path, offset: int, value: bytes, message: str) -> None:
    content = bytearray(zipped(tmp_path / "w.zip", GLOVE).read_bytes())
    start = content.rindex(b"PK\x01\x02") + offset
    content[start : start + len(value)] = value
    for read in (read_glove, read_word2vec):
        with pytest.raises(UserError, match=rf"v\.zip is truncated or damaged \(.*{message}"):
            read(plain(tmp_path / "v.zip", bytes(content)))


def test_a_named_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read in (read_glove, read_word2vec, lambda path: read_conceptnet(path, RELATIONS)):
        with pytest.raises(UserError, match="pipe is a named pipe, not a regular file"):
            read(tmp_path / "pipe")


def test_a_truncated_archive_is_a_user_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "".join(f"w{i} {' '.join(map(str, rng.random(9)))}\n" for i in range(300)).encode()
    whole = gzip.compress(text)
    for read in (read_glove, read_word2vec):
        with pytest.raises(UserError, match=r"v\.gz is truncated or damaged|v\.gz line 1"):
            read(plain(tmp_path / "v.gz", whole[: len(whole) // 2]))
    with pytest.raises(UserError, match=r"v\.gz is truncated or damaged"):
        read_conceptnet(plain(tmp_path / "v.gz", gzip.compress(GRAPH)[:-30]), RELATIONS)
    with pytest.raises(UserError, match=r"v\.zip is truncated or damaged"):
        read_glove(plain(tmp_path / "v.zip", zipped(tmp_path / "w.zip", text).read_bytes()[:100]))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.txt is not a file"):
        read_glove(tmp_path / "nowhere.txt")


WORDS = {"Dog": [1.0, 2.0, 3.0], "New_York": [0.5, -0.5, 0.25], "ice-cream": [4.0, 5.0, 6.0]}


@pytest.mark.parametrize("pack", [plain, gzipped, zipped])
@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_word2vec(tmp_path: Path, pack: Callable[[Path, bytes], Path], newline: bytes) -> None:
    found = read_word2vec(pack(tmp_path / "v.bin", word2vec_bytes(WORDS, newline)))
    assert found.terms == ["dog", "new_york", "ice_cream"]
    np.testing.assert_array_equal(found.matrix, list(WORDS.values()))


def test_word2vec_over_many_blocks_equals_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    data = word2vec_bytes({f"w{i}": row.tolist() for i, row in enumerate(rows)})
    monkeypatch.setattr("semco.labels.build.readers.word2vec.BLOCK", 50)
    found = read_word2vec(plain(tmp_path / "v.bin", data))
    np.testing.assert_array_equal(found.matrix, rows)
    assert read_word2vec(tmp_path / "v.bin", limit=7).terms == [f"w{i}" for i in range(7)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (word2vec_bytes(WORDS)[:-1], r"word 3 of 3: the file is truncated"),
        (word2vec_bytes({"a": [1.0, float("nan")]}), r"word 1: the vector of 'a' contains NaN"),
        (GLOVE, r"line 1: a word2vec binary file begins with its count"),
        (GRAPH, r"is a ConceptNet graph"),
        (b"", r"line 1"),
        (b"0 300\n", r"0 words of dimension 300"),
        (b"10 0\n", r"10 words of dimension 0"),
        (b"5 3\n" + b"x" * 9000, r"word 1 of 5: the file is truncated or not word2vec"),
        (b"99999999999999999999999 3\n", r"line 1"),
    ],
)
def test_other_files_are_not_read_as_word2vec(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_word2vec(plain(tmp_path / "v.bin", data))


@pytest.mark.parametrize("pack", [plain, gzipped, zipped])
def test_conceptnet_keeps_english_and_the_named_relations(tmp_path: Path, pack: Callable[[Path, bytes], Path]) -> None:
    found = read_conceptnet(pack(tmp_path / "g", GRAPH), RELATIONS)
    edges = {
        (found.terms[a], found.relations[r], found.terms[b]): float(w)
        for a, r, b, w in zip(found.start, found.relation, found.end, found.weight, strict=True)
    }
    assert edges == {
        ("dog", "IsA", "animal"): 2.0,
        ("dog", "Synonym", "hound"): 1.0,  # 0.5 times the relation's 2
        ("the_cat".removeprefix("the_"), "IsA", "animal"): 1.0,
    }
    assert found.lines == 5


def test_conceptnet_over_many_blocks_equals_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"".join(edge("IsA", f"/c/en/t{i}", f"/c/en/t{i // 2}", i) for i in range(1, 60))
    monkeypatch.setattr(stream, "BLOCK", 150)
    found = read_conceptnet(plain(tmp_path / "g.csv", text), RELATIONS)
    assert [(found.terms[a], found.terms[b]) for a, b in zip(found.start, found.end, strict=True)] == [
        (f"t{i}", f"t{i // 2}") for i in range(1, 60)
    ]
    np.testing.assert_allclose(found.weight, range(1, 60))


def test_an_edge_from_a_term_to_itself_is_dropped(tmp_path: Path) -> None:
    text = edge("IsA", "/c/en/the_dog", "/c/en/dog") + edge("IsA", "/c/en/dog", "/c/en/pet")
    assert len(read_conceptnet(plain(tmp_path / "g.csv", text), RELATIONS).start) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"contains no English assertions of IsA, Synonym in its 0 lines"),
        (edge("AtLocation", "/c/en/a", "/c/en/b"), r"contains no English assertions"),
        (edge("IsA", "/c/de/a", "/c/de/b"), r"contains no English assertions"),
        (GLOVE, r"g\.csv line 1: a ConceptNet assertion has 5 tab-separated columns, not 1; check that this"),
        (GRAPH + b"/a/x\t/r/IsA\t/c/en/a\n", r"g\.csv line 6: .* not 3"),
        (edge("IsA", "/c/en/a", "/c/en/b").replace(b"}", b"]"), r"g\.csv line 1: .* not the JSON"),
        (GRAPH + edge("IsA", "/c/en/a", "/c/en/b", -1.0), r"g\.csv line 6: .* weight -1"),
        (edge("IsA", "/c/en/a", "/c/en/b", float("nan")), r"line 1: .* weight nan"),
    ],
)
def test_other_files_are_not_read_as_a_graph(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_conceptnet(plain(tmp_path / "g.csv", data), RELATIONS)


def test_a_graph_where_vectors_are_expected_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a ConceptNet graph, not a vector file"):
        read_glove(plain(tmp_path / "g.csv", GRAPH))


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    reports: list[tuple[str, int, int | None]] = []
    path = gzipped(tmp_path / "v.gz", GLOVE)
    read_glove(path, report=lambda *what: reports.append(what))
    assert reports[-1] == ("reading GloVe", path.stat().st_size, path.stat().st_size)


def mangled(data: bytes, cuts: list[tuple[int, bytes]]) -> bytes:
    """Return ``data`` with some bytes overwritten."""
    for place, over in cuts:
        place %= len(data) + 1
        data = data[:place] + over + data[place + len(over) :]
    return data


CUTS = st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=6)), max_size=4)
FUZZ = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


@FUZZ
@given(cuts=CUTS, keep=st.integers(0, 400), packed=st.booleans())
@pytest.mark.parametrize("which", ["glove", "word2vec", "conceptnet"])
def test_any_bytes_give_vectors_or_a_user_error(
    tmp_path: Path, which: str, cuts: list[tuple[int, bytes]], keep: int, packed: bool
) -> None:
    good = {"word2vec": word2vec_bytes(WORDS), "conceptnet": GRAPH}.get(which, GLOVE)
    readers = {"glove": read_glove, "word2vec": read_word2vec}
    data = gzip.compress(good, mtime=0) if packed else good
    path = plain(tmp_path / "fuzzed", mangled(data, cuts)[: keep if keep < 300 else None])
    try:
        if which == "conceptnet":
            assert (read_conceptnet(path, RELATIONS).weight > 0).all()
        else:
            found = readers[which](path)
            assert len(found.terms) == len(found.matrix) == len(set(found.terms))
            assert np.isfinite(found.matrix).all()
    except UserError as refusal:
        sentence = str(refusal)
    else:
        sentence = "fuzzed but fine"
    assert "fuzzed" in sentence
