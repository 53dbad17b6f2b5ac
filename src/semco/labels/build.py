"""From raw files to a vector store: read, retrofit each set on the graph, combine, write (supplement, section B).

Every stage leaves its result beside the store under a name made of its inputs and settings, so that a build that was
killed goes on where it stopped; the store itself appears as a whole, at the end, and the stages then go.

Shapes: n terms of the vocabulary, d embedding size, e edges.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from semco.errors import UserError
from semco.files import atomic_path
from semco.labels.combine import combine
from semco.labels.eps import sibling_eps
from semco.labels.readers.conceptnet import Edges, read_conceptnet
from semco.labels.readers.glove import read_glove
from semco.labels.readers.numberbatch import read_numberbatch
from semco.labels.readers.stream import Report, silent
from semco.labels.readers.vectors import VectorSet
from semco.labels.readers.word2vec import read_word2vec
from semco.labels.retrofit import adjacency, hold, retrofit
from semco.labels.store import VectorStore, refuse_foreign, unit_rows

Arrays = Mapping[str, NDArray[Any]]
Mask = NDArray[np.bool_]

# The relations that imply that two things look alike (section 4.1).
RELATIONS: Mapping[str, float] = {
    "SimilarTo": 1.0,
    "InstanceOf": 1.0,
    "IsA": 1.0,
    "FormOf": 1.0,
    "Synonym": 0.3,  # of any sense of a word, most of them not the one that is pictured
    "EtymologicallyRelatedTo": 0.3,
    "DefinedAs": 1.0,
}
_READERS: Mapping[str, Callable[[Path, int | None, Report], VectorSet]] = {
    "glove": read_glove,
    "word2vec": read_word2vec,
}


@dataclass(frozen=True)
class Recipe:
    """The settings that make a store out of the same files; docs/labels.md says what each is worth."""

    dim: int = 128
    iterations: int = 10
    alpha: float = 1.0  # weight of a term's own vector, as a multiple of that of all its edges together
    singular_power: float = 0.5  # directions weighted by their singular value to this power


@dataclass(frozen=True)
class Vocabulary:
    """All terms of all sources; those that more sources know come first, then the more frequent."""

    terms: list[str]  # n
    number: Mapping[str, int]

    def places(self, terms: list[str]) -> NDArray[np.int64]:
        """Place of each term, -1 where the vocabulary was cut."""
        return np.fromiter((self.number.get(term, -1) for term in terms), np.int64, len(terms))


def build(
    glove: Path | None,
    word2vec: Path | None,
    conceptnet: Path,
    out: Path,
    relations: Mapping[str, float] = RELATIONS,
    recipe: Recipe = Recipe(),  # noqa: B008 (frozen)
    max_words: int | None = None,
    keep: Collection[str] | None = None,
    report: Report = silent,
) -> VectorStore:
    """Build the store ``out`` from a ConceptNet graph and one or two sets of vectors.

    ``max_words`` caps each file of vectors at its most frequent words, and the vocabulary with the graph's own terms
    too. With ``keep`` the store holds only these terms, though all took part in its making.
    """
    files = {name: Path(path) for name, path in (("glove", glove), ("word2vec", word2vec)) if path is not None}
    _check(files, relations, recipe, max_words)
    out = Path(out)
    refuse_foreign(out)
    stages = Stages(out.parent / f".{out.name}.stages", report)
    sets = {name: _read_set(stages, name, path, max_words) for name, path in files.items()}
    edges = _read_graph(stages, Path(conceptnet), relations)
    vocabulary = make_vocabulary(list(sets.values()), edges, max_words)
    counts = {name: _counts(one) for name, one in sets.items()} | {"conceptnet": _edge_counts(edges)}
    graph = _graph(edges, vocabulary)
    settings = {"relations": dict(relations), "max_words": max_words, **asdict(recipe)}
    rows = [
        _retrofit_set(stages, name, sets.pop(name), vocabulary, graph, settings, [*files.values(), conceptnet])
        for name in files
    ]
    matrix, known = _combined(rows, recipe, report)
    header = _header({**files, "conceptnet": Path(conceptnet)}, counts, settings, report)
    header["default_eps"] = sibling_eps(matrix, known, _parents(edges, vocabulary))
    _write(out, vocabulary, matrix, known, keep, header, report)
    stages.remove()
    return VectorStore.open(out)


def import_numberbatch(
    path: Path, out: Path, dim: int = 128, max_words: int | None = None, report: Report = silent
) -> VectorStore:
    """A store from a published ConceptNet Numberbatch file, reduced to ``dim`` by SVD."""
    if dim < 2:
        raise UserError(f"dim = {dim}: vectors need at least 2 dimensions.")
    refuse_foreign(Path(out))
    found = read_numberbatch(Path(path), max_words, report)
    everyone = np.ones(len(found.terms), dtype=bool)
    report("reducing by SVD", 0, None)
    matrix, _ = combine([(unit_rows(found.matrix), everyone)], dim)
    header = _header({"numberbatch": Path(path)}, {"numberbatch": _counts(found)}, {"dim": dim}, report)
    VectorStore.write(Path(out), found.terms, matrix, np.arange(len(found.terms)), header)
    return VectorStore.open(Path(out))


class Stages:
    """Results of finished stages on disk, named by what went into them."""

    def __init__(self, folder: Path, report: Report) -> None:
        self.folder = folder
        self.report = report

    def get(self, name: str, inputs: list[Path], settings: Any, make: Callable[[], Arrays]) -> Arrays:
        """The stage's arrays: from disk if the same inputs and settings made them before."""
        path = self.folder / f"{name}-{_fingerprint(inputs, settings)}.npz"
        if path.is_file():
            with np.load(path) as stored:
                return dict(stored)
        arrays = make()
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)
        return arrays

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def make_vocabulary(sets: list[VectorSet], edges: Edges, max_words: int | None) -> Vocabulary:
    """Terms known to more sources first, then by their best rank in any: in a file, or by degree in the graph."""
    degrees = np.bincount(edges.start, minlength=len(edges.terms)) + np.bincount(edges.end, minlength=len(edges.terms))
    by_degree = [edges.terms[i] for i in np.argsort(-degrees, kind="stable")]
    best: dict[str, tuple[int, int]] = {}
    for source in (*(one.terms for one in sets), by_degree):
        for rank, term in enumerate(source):
            known_to, before = best.get(term, (0, rank))
            best[term] = (known_to - 1, min(before, rank))
    terms = sorted(best, key=lambda term: (best[term], term))[:max_words]
    return Vocabulary(terms, {term: i for i, term in enumerate(terms)})


def _check(files: Mapping[str, Path], relations: Mapping[str, float], recipe: Recipe, cap: int | None) -> None:
    if not files:
        raise UserError("a build needs vectors: give a GloVe file, a word2vec file or both.")
    if not relations or not all(weight > 0 for weight in relations.values()):
        raise UserError(f"relations = {dict(relations)}: name at least one, each with a positive weight.")
    if recipe.dim < 2 or recipe.iterations < 0:
        raise UserError(f"dim = {recipe.dim} must be at least 2 and iterations = {recipe.iterations} not negative.")
    if cap is not None and cap < 2:
        raise UserError(f"max_words = {cap}: a vocabulary needs at least 2 terms.")


def _read_set(stages: Stages, name: str, path: Path, limit: int | None) -> VectorSet:
    def make() -> Arrays:
        found = _READERS[name](path, limit, stages.report)
        counts = np.asarray([found.lines, found.duplicates, found.latin1, found.unusable])
        return {"terms": _packed(found.terms), "matrix": found.matrix, "counts": counts}

    arrays = stages.get(f"read-{name}", [path], limit, make)
    return VectorSet(_unpacked(arrays["terms"]), arrays["matrix"], *map(int, arrays["counts"]))


def _read_graph(stages: Stages, path: Path, relations: Mapping[str, float]) -> Edges:
    def make() -> Arrays:
        found = read_conceptnet(path, relations, stages.report)
        arrays = {key: getattr(found, key) for key in ("start", "end", "relation", "weight")}
        return {"terms": _packed(found.terms), "lines": np.asarray(found.lines), **arrays}

    arrays = stages.get("read-conceptnet", [path], dict(relations), make)
    return Edges(
        _unpacked(arrays["terms"]),
        arrays["start"],
        arrays["end"],
        arrays["relation"],
        arrays["weight"],
        tuple(relations),
        int(arrays["lines"]),
    )


def _graph(edges: Edges, vocabulary: Vocabulary) -> sparse.csr_array:
    """(n, n) symmetric weights between the vocabulary's terms."""
    places = vocabulary.places(edges.terms)
    start, end = places[edges.start], places[edges.end]
    inside = (start >= 0) & (end >= 0)
    return adjacency(start[inside], end[inside], edges.weight[inside], len(vocabulary.terms))


def _parents(edges: Edges, vocabulary: Vocabulary) -> NDArray[np.int64]:
    """(m, 2) child and parent of every IsA edge inside the vocabulary."""
    places = vocabulary.places(edges.terms)
    wanted = edges.relation == (edges.relations.index("IsA") if "IsA" in edges.relations else -1)
    pairs = np.stack([places[edges.start[wanted]], places[edges.end[wanted]]], axis=1)
    return pairs[(pairs >= 0).all(axis=1)]


def _retrofit_set(
    stages: Stages,
    name: str,
    found: VectorSet,
    vocabulary: Vocabulary,
    graph: sparse.csr_array,
    settings: Mapping[str, Any],
    inputs: list[Path],
) -> tuple[NDArray[np.float32], Mask]:
    """L2-normalised rows (n, d) of one set after retrofitting, and the terms that have one."""
    stage = f"retrofitting {name}"

    def make() -> Arrays:
        stages.report(stage, 0, None)
        rows, known = _placed(found, vocabulary)
        rows, reached = retrofit(
            graph,
            rows,
            hold(graph, known, settings["alpha"]),
            settings["iterations"],
            lambda done, total: stages.report(stage, done, total),
        )
        return {"rows": unit_rows(rows), "reached": reached}

    used = {key: value for key, value in settings.items() if key not in ("dim", "singular_power")}
    arrays = stages.get(f"retrofit-{name}", inputs, used, make)
    return arrays["rows"], arrays["reached"]


def _placed(found: VectorSet, vocabulary: Vocabulary) -> tuple[NDArray[np.float32], Mask]:
    """The set's unit vectors, centred and of length one again, at their terms' places (n, d).

    Without centring, the direction that all words share would count as likeness of any two.
    """
    places = vocabulary.places(found.terms)
    inside = places >= 0
    unit = unit_rows(found.matrix[inside])
    rows = np.zeros((len(vocabulary.terms), found.matrix.shape[1]), dtype=np.float32)
    rows[places[inside]] = unit_rows(unit - unit.mean(axis=0))
    known = np.zeros(len(vocabulary.terms), dtype=bool)
    known[places[inside]] = True
    return rows, known


def _combined(
    rows: list[tuple[NDArray[np.float32], Mask]], recipe: Recipe, report: Report
) -> tuple[NDArray[np.float32], Mask]:
    report("combining", 0, 1)
    matrix, known = combine(rows, recipe.dim, recipe.singular_power)
    report("combining", 1, 1)
    return matrix, known & (np.abs(matrix).sum(axis=1) > 0)


def _write(
    out: Path,
    vocabulary: Vocabulary,
    matrix: NDArray[np.float32],
    known: Mask,
    keep: Collection[str] | None,
    header: Mapping[str, Any],
    report: Report,
) -> None:
    report("writing", 0, 1)
    wanted = None if keep is None else set(keep)
    places = [i for i in np.flatnonzero(known).tolist() if wanted is None or vocabulary.terms[i] in wanted]
    if not places:
        raise UserError(f"none of the {len(wanted or ())} terms to keep has a vector; nothing was written to {out}.")
    VectorStore.write(out, [vocabulary.terms[i] for i in places], matrix[places], range(len(places)), header)
    report("writing", 1, 1)


def _header(files: Mapping[str, Path], counts: Mapping[str, Any], recipe: Any, report: Report) -> dict[str, Any]:
    """What the store is made of: files by name, never by place."""
    sources = {
        name: {"file": path.name, "bytes": path.stat().st_size, "sha256": _sha256(path, report), **counts[name]}
        for name, path in files.items()
    }
    return {"sources": sources, "recipe": recipe}


def _counts(found: VectorSet) -> dict[str, int]:
    return {key: getattr(found, key) for key in ("lines", "duplicates", "latin1", "unusable")}


def _edge_counts(edges: Edges) -> dict[str, int]:
    return {"lines": edges.lines, "edges": len(edges.start), "terms": len(edges.terms)}


def _sha256(path: Path, report: Report) -> str:
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as stream:
        while chunk := stream.read(2**22):
            digest.update(chunk)
            done += len(chunk)
            report(f"checksum of {path.name}", done, total)
    return digest.hexdigest()


def _fingerprint(inputs: list[Path], settings: Any) -> str:
    """Of file names, sizes and times: reading gigabytes to recognise them would be the longest stage."""
    stats = [
        (Path(path).name, Path(path).stat().st_size, Path(path).stat().st_mtime_ns)
        for path in inputs
        if Path(path).is_file()
    ]
    return hashlib.sha256(json.dumps([stats, settings], sort_keys=True).encode()).hexdigest()[:16]


def _packed(terms: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(terms).encode(errors="surrogatepass"), dtype=np.uint8)


def _unpacked(text: NDArray[np.uint8]) -> list[str]:
    return text.tobytes().decode(errors="surrogatepass").split("\n")
