"""Time and memory of label vectors: reading compared with gensim, opening a large store, a full-size build.

The full-size build uses synthetic files of the official sizes: GloVe 2.2 M x 300, word2vec 3 M x 300 and 34 M
assertions, of which 3 M are kept.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.child import run_code
from benchmarks.rows import Row, cpu_in_turns
from semco.errors import UserError
from semco.labels.build.readers.glove import read_glove
from semco.labels.store import VectorStore

GLOVE_WORDS, WORD2VEC_WORDS, DIM = 2_200_000, 3_000_000, 300
ASSERTIONS, KEPT, GRAPH_TERMS = 34_000_000, 3_000_000, 1_000_000
MAX_WORDS = 500_000
_ROWS = 1000  # number of different vectors in a synthetic file; vectors repeat, words do not


def bench_labels(full: bool = False, scale: float = 1.0) -> list[Row]:
    """Run all measurements; ``full`` adds a build with ``scale`` times the official sizes."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [time_reader(Path(folder)), *time_large_store(Path(folder))]
        if full:
            built = time_full_build(Path(folder), scale)
            size = f"{scale:g} of the official files"
            rows += [Row(f"building a store from {size}: {stage}", "s", s) for stage, s in built["stages_s"].items()]
            rows.append(Row(f"building a store from {size}, peak memory", "GiB", built["peak_gib"]))
    return rows


def time_reader(folder: Path, words: int = 20_000, repeats: int = 3) -> Row:
    """Return the CPU seconds to read the same GloVe text with SemCo and with gensim, in turns."""
    try:
        from gensim.models import KeyedVectors
    except ImportError:
        raise UserError("the comparison needs gensim; install it with `pip install 'semco[bench]'`.") from None
    path = folder / "glove.txt"
    make_glove(path, words)
    ways = {
        "ours": lambda: read_glove(path),
        "gensim": lambda: KeyedVectors.load_word2vec_format(path, no_header=True),
    }
    seconds = cpu_in_turns(ways, repeats)
    return Row(f"reading {words:,} words of GloVe text", "CPU s", *seconds["ours"], seconds["gensim"][0], "gensim")


def time_large_store(folder: Path, size: int = 1_000_000, names: int = 1000) -> list[Row]:
    """Return what it takes to open a store of ``size`` terms, and to look up ``names`` names in it."""
    from semco.labels.matching.lookup import Lookup

    rng = np.random.default_rng(0)
    terms = [f"term_{i:x}" for i in range(size)]
    rows = np.tile(rng.normal(size=(_ROWS, 128)).astype(np.float32), (size // _ROWS + 1, 1))[:size]
    VectorStore.write(folder / "store", terms, rows, np.arange(size), {})
    class_names = [f"Term {i:x}" for i in rng.choice(size, names, replace=False)]
    store = VectorStore.open(folder / "store")
    assert all(match.terms for match in Lookup(store).find_all(class_names)[0])
    ways = {
        f"opening a store of {size:,} terms": lambda: VectorStore.open(folder / "store"),
        f"looking up {names:,} names in it": lambda: Lookup(store).find_all(class_names),
    }
    return [Row(what, "CPU s", *seconds) for what, seconds in cpu_in_turns(ways, 3).items()]


def time_full_build(folder: Path, scale: float = 1.0) -> dict[str, Any]:
    """Return the seconds of each stage and the peak memory of a build in a separate process."""
    make_glove(folder / "glove.txt", int(GLOVE_WORDS * scale))
    make_word2vec(folder / "word2vec.bin", int(WORD2VEC_WORDS * scale))
    make_conceptnet(folder / "graph.csv", scale)
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.*")}
    measured = run_code("build", _BUILD_CODE, str(folder), str(int(MAX_WORDS * scale)))
    return {"scale": scale, "bytes": sizes, **measured}


_BUILD_CODE = """
import json, resource, sys, time
from pathlib import Path
from semco.labels.build import build_store
folder, max_words = Path(sys.argv[1]), int(sys.argv[2])
start, stages = time.perf_counter(), {}
def report(stage, done, total):
    stages.setdefault(stage, time.perf_counter())
files = (folder / "glove.txt", folder / "word2vec.bin", folder / "graph.csv")
store = build_store(*files, folder / "built", max_words=max_words, report=report)
total, begins = time.perf_counter() - start, sorted((begin, stage) for stage, begin in stages.items())
ends = [begin for begin, _ in begins[1:]] + [start + total]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({
    "total_s": total, "peak_gib": peak, "terms": store.size,
    "stages_s": {stage: end - begin for (begin, stage), end in zip(begins, ends)},
}))
"""


def make_glove(path: Path, words: int) -> None:
    """Write a GloVe text file of random numbers with five digits."""
    rows = np.random.default_rng(0).normal(scale=0.4, size=(_ROWS, DIM))
    tails = [" " + " ".join(f"{x:.5g}" for x in row) + "\n" for row in rows]
    _write(path, (f"word{i:x}{tails[i % _ROWS]}".encode() for i in range(words)))


def make_word2vec(path: Path, words: int) -> None:
    """Write a word2vec binary file; every third word also occurs in the GloVe file."""
    rows = np.random.default_rng(1).normal(scale=0.1, size=(_ROWS, DIM)).astype("<f4")
    tails = [b" " + row.tobytes() for row in rows]
    lines = (f"{'word' if i % 3 == 0 else 'news'}{i // 3:x}".encode() + tails[i % _ROWS] for i in range(words))
    _write(path, lines, f"{words} {DIM}\n".encode())


def make_conceptnet(path: Path, scale: float) -> None:
    """Write ConceptNet assertions; about one in eleven is English and has a relation that is kept."""
    total, every = int(ASSERTIONS * scale), ASSERTIONS // KEPT
    terms = max(2, int(GRAPH_TERMS * scale))
    ends = np.random.default_rng(2).integers(0, terms, size=(total // every + 1, 2)).tolist()
    info = json.dumps({"dataset": "/d/wiktionary/en", "license": "cc:by-sa/4.0", "weight": 1.0})
    other = "".join(
        f"/a/[/r/RelatedTo/,/c/fr/mot{i}/,/c/fr/nom{i}/]\t/r/RelatedTo\t/c/fr/mot{i}\t/c/fr/nom{i}\t{info}\n"
        for i in range(every - 1)
    )

    def blocks() -> Iterator[bytes]:
        for a, b in ends:
            start, end = f"/c/en/word{a:x}", f"/c/en/word{b:x}"
            yield f"/a/[/r/IsA/,{start}/,{end}/]\t/r/IsA\t{start}\t{end}\t{info}\n{other}".encode()

    _write(path, blocks())


def _write(path: Path, pieces: Iterator[bytes], head: bytes = b"") -> None:
    with path.open("wb", buffering=2**22) as stream:
        stream.write(head)
        stream.writelines(pieces)
