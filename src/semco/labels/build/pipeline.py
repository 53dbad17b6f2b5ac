"""Build a vector store: read the files, retrofit each set of vectors on the graph, combine the sets, write.

The result of each stage is stored next to the store (`stages`) until the build is complete. The store itself appears
only at the end, as a whole.

Shapes: n terms of the vocabulary, d embedding size.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from semco.download import Report, no_report, sha256
from semco.errors import UserError
from semco.files import ZIP_ERRORS, atomic_path, open_regular
from semco.labels.build.combine import combine
from semco.labels.build.infer import compose_missing, translate_missing
from semco.labels.build.readers.conceptnet import Edges, read_conceptnet
from semco.labels.build.readers.glove import read_glove
from semco.labels.build.readers.vectors import VectorSet
from semco.labels.build.readers.word2vec import read_word2vec
from semco.labels.build.retrofit import own_weights, retrofit
from semco.labels.build.settings import RELATIONS, BuildSettings, check_settings
from semco.labels.build.vocabulary import (
    Vocabulary,
    is_a_pairs,
    make_vocabulary,
    vocabulary_graph,
    vocabulary_rows,
)
from semco.labels.eps import sibling_eps
from semco.labels.store import VectorStore, check_replaceable, unit_rows

Arrays = Mapping[str, NDArray[Any]]


class Stages:
    """Arrays of finished stages, each in a file named after the stage's inputs and settings."""

    def __init__(self, folder: Path, report: Report) -> None:
        self.folder = folder
        self.report = report

    def load_or_compute(self, name: str, inputs: list[Path], settings: Any, compute: Callable[[], Arrays]) -> Arrays:
        """Return the stage's arrays, read from disk if the same inputs and settings produced them before.

        A stored file that is damaged is computed again.
        """
        path = self.folder / f"{name}-{fingerprint(inputs, settings)}.npz"
        if path.is_file():
            # The file is opened here, because NumPy does not close a damaged one.
            damage = suppress(*ZIP_ERRORS, ValueError, RuntimeError, LookupError)
            with damage, open_regular(path) as stream, np.load(stream) as stored:
                return dict(stored)
        arrays = compute()
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)
        return arrays

    def remove(self) -> None:
        """Delete all stored stages."""
        shutil.rmtree(self.folder, ignore_errors=True)


def fingerprint(inputs: list[Path], settings: Any) -> str:
    """Return a hash of the settings and of the files' names, sizes and modification times.

    The content of the files is left out: reading gigabytes would take longer than any stage.
    """
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in inputs if path.is_file()]
    return hashlib.sha256(json.dumps([stats, settings], sort_keys=True).encode()).hexdigest()[:16]


def pack_terms(terms: list[str]) -> NDArray[np.uint8]:
    """Return terms as one array of bytes."""
    return np.frombuffer("\n".join(terms).encode(errors="surrogatepass"), dtype=np.uint8)


def unpack_terms(packed: NDArray[np.uint8]) -> list[str]:
    """Return the terms that `pack_terms` packed."""
    return packed.tobytes().decode(errors="surrogatepass").split("\n")


Rows = NDArray[np.float32]
Mask = NDArray[np.bool_]

NO_EDGES = Edges(
    [], np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int8), np.zeros(0, np.float32), relations=()
)
_READERS: Mapping[str, Callable[[Path, int | None, Report], VectorSet]] = {
    "glove": read_glove,
    "word2vec": read_word2vec,
}


def build_store(
    glove: Path | None,
    word2vec: Path | None,
    conceptnet: Path | None,
    out: Path,
    relations: Mapping[str, float] = RELATIONS,
    settings: BuildSettings = BuildSettings(),  # noqa: B008 (frozen)
    max_words: int | None = None,
    report: Report = no_report,
) -> VectorStore:
    """Build the store ``out`` from one or two sets of vectors and a ConceptNet graph.

    ``max_words`` limits each file of vectors to its most frequent words, and the vocabulary, which includes the graph's
    own terms, to as many. Without a graph, ``settings.iterations`` must be 0.
    """
    files = {name: Path(path) for name, path in (("glove", glove), ("word2vec", word2vec)) if path is not None}
    if not files:
        raise UserError("a build needs vectors: give a GloVe file, a word2vec file or both.")
    check_settings(relations, settings, max_words)
    if conceptnet is None and settings.iterations > 0:
        raise UserError("retrofitting needs a graph: give a ConceptNet file, or set iterations to 0.")
    out, graph_files = Path(out), {} if conceptnet is None else {"conceptnet": Path(conceptnet)}
    check_replaceable(out)
    stages = Stages(out.parent / f".{out.name}.stages", report)
    sets = {name: _read_vectors(stages, name, path, max_words) for name, path in files.items()}
    edges = NO_EDGES if conceptnet is None else _read_graph(stages, Path(conceptnet), relations)
    vocabulary = make_vocabulary(list(sets.values()), edges, max_words)
    in_all_files = vocabulary.contained_in([vectors.terms for vectors in sets.values()])
    counts = {name: _vector_counts(vectors) for name, vectors in sets.items()} | {"conceptnet": _edge_counts(edges)}
    all_settings = {"relations": dict(relations), "max_words": max_words, **asdict(settings)}
    start = _Start(sets, vocabulary, settings)
    graph = vocabulary_graph(edges, vocabulary)
    inputs = [*files.values(), *graph_files.values()]
    rows = [_retrofit_vectors(stages, name, start, graph, all_settings, inputs) for name in files]
    # With translated vectors every word of a file is in both sets. Those without edges, mostly proper names, would then
    # dominate the SVD; otherwise it is fitted to all common terms, as the paper says.
    fitted = np.diff(graph.indptr) > 0 if settings.translated_alpha > 0 else None
    matrix, known = _combine_sets(rows, settings, fitted, report)
    header = _header({**files, **graph_files}, counts, all_settings, report)
    header["default_eps"] = sibling_eps(matrix, known & in_all_files, is_a_pairs(edges, vocabulary))
    _write(out, vocabulary, matrix, known, header, report)
    stages.remove()
    return VectorStore.open(out)


@dataclass(frozen=True)
class _Start:
    """The vectors of all sets before retrofitting; computed when they are first needed."""

    sets: dict[str, VectorSet]
    vocabulary: Vocabulary
    settings: BuildSettings

    @cached_property
    def rows(self) -> dict[str, tuple[Rows, Mask, Mask, Mask]]:
        """Rows (n, d) of each set, and which of them (n,) are known, translated and composed (`infer`)."""
        names = list(self.sets)  # pop: a set is not needed once its rows are copied, and may take gigabytes
        sets = [vocabulary_rows(self.sets.pop(name), self.vocabulary, self.settings.is_centred) for name in names]
        translated = composed = [np.zeros_like(known) for _, known in sets]
        if self.settings.translated_alpha > 0:
            translated = translate_missing(sets)
        if self.settings.composed_alpha > 0:
            present = [(rows, known | more) for (rows, known), more in zip(sets, translated, strict=True)]
            composed = compose_missing(present, self.vocabulary.terms, self.vocabulary.index)
        parts = zip(names, sets, translated, composed, strict=True)
        return {name: (rows, known, second, third) for name, (rows, known), second, third in parts}

    def alpha(self, name: str, graph: sparse.csr_array) -> NDArray[np.float64]:
        """Return the weight (n,) of each term's own vector."""
        _, *masks = self.rows[name]
        factors = (1.0, self.settings.translated_alpha, self.settings.composed_alpha)
        parts = [own_weights(graph, mask, factor) for mask, factor in zip(masks, factors, strict=True)]
        total: NDArray[np.float64] = np.sum(parts, axis=0)
        return total


def _read_vectors(stages: Stages, name: str, path: Path, limit: int | None) -> VectorSet:
    def compute() -> Arrays:
        vectors = _READERS[name](path, limit, stages.report)
        counts = np.asarray(list(_vector_counts(vectors).values()))
        return {"terms": pack_terms(vectors.terms), "matrix": vectors.matrix, "counts": counts}

    arrays = stages.load_or_compute(f"read-{name}", [path], limit, compute)
    return VectorSet(unpack_terms(arrays["terms"]), arrays["matrix"], *map(int, arrays["counts"]))


def _read_graph(stages: Stages, path: Path, relations: Mapping[str, float]) -> Edges:
    def compute() -> Arrays:
        edges = read_conceptnet(path, relations, stages.report)
        arrays = {key: getattr(edges, key) for key in ("start", "end", "relation", "weight")}
        return {"terms": pack_terms(edges.terms), "lines": np.asarray(edges.lines), **arrays}

    arrays = stages.load_or_compute("read-conceptnet", [path], dict(relations), compute)
    return Edges(
        unpack_terms(arrays["terms"]),
        arrays["start"],
        arrays["end"],
        arrays["relation"],
        arrays["weight"],
        tuple(relations),
        int(arrays["lines"]),
    )


def _retrofit_vectors(
    stages: Stages,
    name: str,
    start: _Start,
    graph: sparse.csr_array,
    settings: Mapping[str, Any],
    inputs: list[Path],
) -> tuple[Rows, Mask]:
    """Return L2-normalised rows (n, d) of one set after retrofitting, and which terms have one (n,)."""
    stage = f"retrofitting {name}"

    def compute() -> Arrays:
        stages.report(stage, 0, None)
        rows, reached = retrofit(
            graph,
            start.rows[name][0],
            start.alpha(name, graph),
            settings["iterations"],
            lambda done, total: stages.report(stage, done, total),
        )
        return {"rows": unit_rows(rows), "reached": reached}

    used = {key: value for key, value in settings.items() if key not in ("dim", "singular_power")}
    arrays = stages.load_or_compute(f"retrofit-{name}", inputs, used, compute)
    return arrays["rows"], arrays["reached"]


def _combine_sets(
    rows: list[tuple[Rows, Mask]], settings: BuildSettings, fitted: Mask | None, report: Report
) -> tuple[Rows, Mask]:
    """Return the combined rows (n, dim), and which terms have a vector that is not zero (n,)."""
    report("combining", 0, 1)
    matrix, known = combine(rows, settings.dim, settings.singular_power, fitted)
    report("combining", 1, 1)
    return matrix, known & (np.abs(matrix).sum(axis=1) > 0)


def _write(
    out: Path, vocabulary: Vocabulary, matrix: Rows, known: Mask, header: Mapping[str, Any], report: Report
) -> None:
    report("writing", 0, 1)
    positions = np.flatnonzero(known)
    terms = [vocabulary.terms[i] for i in positions.tolist()]
    VectorStore.write(out, terms, matrix[positions], range(len(positions)), header)
    report("writing", 1, 1)


def _header(files: Mapping[str, Path], counts: Mapping[str, Any], settings: Any, report: Report) -> dict[str, Any]:
    """Return the sources of a store (file names without folders, sizes, checksums, counts) and its settings."""
    sources = {
        name: {
            "file": path.name,
            "bytes": path.stat().st_size,
            "sha256": sha256(path, f"checksum of {path.name}", report),
            **counts[name],
        }
        for name, path in files.items()
    }
    return {"sources": sources, "recipe": settings}


def _vector_counts(vectors: VectorSet) -> dict[str, int]:
    return {key: getattr(vectors, key) for key in ("lines", "duplicates", "latin1", "unusable")}


def _edge_counts(edges: Edges) -> dict[str, int]:
    return {"lines": edges.lines, "edges": len(edges.start), "terms": len(edges.terms)}
