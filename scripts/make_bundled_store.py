"""Make the store that is bundled with the package: build the whole one, then keep the terms that name things.

    python scripts/make_bundled_store.py FOLDER [--whole STORE]

FOLDER holds glove.*, GoogleNews-vectors-* and conceptnet-assertions-*. What is kept, within 12 MB:

1. frequent words of the graph: class names are put together from them;
2. names of things, those first that surely are, whose words are common, that the graph knows well, and that nothing
   else stands for: a wall clock is a clock, but a sea urchin is no urchin, and a single word has no stand-in.

A term names a thing if its vector is near to one of the `KINDS` (the means of what the graph says is one), or fairly
near while the graph leads from it up to one of the `ROOTS` within four steps.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semco.labels.build import RELATIONS, build
from semco.labels.readers.conceptnet import Edges, read_conceptnet
from semco.labels.readers.glove import read_glove
from semco.labels.store import VectorStore, unit_rows

TARGET = Path(__file__).parent.parent / "src" / "semco" / "labels" / "bundled"
SIZE = 80_000  # terms: about 148 bytes each, with 128 dimensions of one byte
FREQUENT = 5_000
KINDS = """
    mammal bird fish reptile insect dog crustacean flower tree fruit vegetable food dish dessert beverage vehicle ship
    aircraft car tool machine device electronic_device musical_instrument weapon clothing garment footwear hat furniture
    container kitchen_utensil appliance toy sports_equipment building house room bridge structure body_part jewelry
    fabric body_of_water
""".split()  # noqa: SIM905
ROOTS = """
    animal plant food vehicle tool device instrument musical_instrument clothing garment building structure furniture
    container appliance body_part toy weapon fabric machine equipment artifact natural_object geological_formation
    vessel fruit vegetable covering
""".split()  # noqa: SIM905
NEAR, FAIRLY_NEAR, STEPS = 0.33, {True: 0.15, False: 0.2}, 4  # a word the vector files do not know must be nearer
UNKNOWN = 60_000  # the rank of such a word
TAXON = re.compile("(genus|family|order|class|phylum|division|tribe|kingdom|species)(?=_|$)")
VAGUE = re.compile("(^|_)(thing|things|type|kind|one|something)(_|$)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--whole", type=Path, help="where the store of all terms is kept; used if it is there")
    arguments = parser.parse_args()
    glove, word2vec, graph = (
        next(arguments.folder.glob(pattern)) for pattern in ("glove.*", "GoogleNews*", "conceptnet-assertions*")
    )
    with tempfile.TemporaryDirectory() as temporary:
        whole = arguments.whole or Path(temporary) / "whole"
        if not whole.exists():
            build(glove, word2vec, graph, whole)
        store = VectorStore.open(whole)
        kept = choose(store, read_glove(glove).terms, read_conceptnet(graph, RELATIONS))
        write(store, kept)
    size = sum(path.stat().st_size for path in TARGET.iterdir())
    print(f"{len(kept)} of {store.size} terms, {size / 1e6:.2f} MB in {TARGET}")


def choose(store: VectorStore, frequent: list[str], edges: Edges) -> list[str]:
    """The terms to keep, by the three rules above."""
    terms, rows = list(store.terms()), unit_rows(np.asarray(store._vectors, dtype=np.float32))
    place = {term: i for i, term in enumerate(terms)}
    degree = dict(zip(edges.terms, _degrees(edges).tolist(), strict=True))
    parents = _parents(edges)
    rank = {term: i for i, term in enumerate(frequent)}
    thing, below = _thingness(place, rows, parents, rank), _below_roots(parents)
    synonyms = _in_relation(edges, "Synonym")
    names = [t for t in terms if _is_name(t) and (t in rank or not _is_taxon(t, parents))]
    kept = {term for term in frequent[:FREQUENT] if term in degree and term in place}
    nouns = [t for t in names if (t in parents or t in synonyms) and t not in kept]
    things = [t for t in nouns if thing[place[t]] >= (FAIRLY_NEAR[t in rank] if t in below else NEAR)]
    words = {term for term in things if "_" not in term} | kept
    scores = {}
    for term in things:
        parts = [part for part in re.split("_|'s?_|'s?$", term) if part]
        stands_in = place[parts[-1]] if len(parts) > 1 and parts[-1] in words else None
        lost = (
            (1.0 if len(parts) > 1 else 1.6) if stands_in is None else 1.0 - float(rows[place[term]] @ rows[stands_in])
        )
        rarest = max(rank.get(part, UNKNOWN) for part in parts)
        common = np.log(1 + degree[term]) - np.log(1000 + rarest)
        scores[term] = 4 * thing[place[term]] + 2 * lost + common
    ordered = sorted((t for t in scores if not VAGUE.search(t)), key=lambda term: (-scores[term], term))
    return sorted(kept) + ordered[: SIZE - len(kept)]


def _is_name(term: str) -> bool:
    return re.fullmatch("[a-z_'éèêüöäñç]+", term) is not None


def _is_taxon(term: str, parents: dict[str, set[str]]) -> bool:
    """Latin names of genera and families, which the graph is full of and pictures are not named by."""
    return any(map(TAXON.search, [term, *parents.get(term, ())]))


def _degrees(edges: Edges) -> NDArray[np.int64]:
    counts = [np.bincount(ends, minlength=len(edges.terms)) for ends in (edges.start, edges.end)]
    return counts[0] + counts[1]


def _parents(edges: Edges) -> dict[str, set[str]]:
    """What the graph says each term is."""
    parents: dict[str, set[str]] = defaultdict(set)
    wanted = edges.relation == edges.relations.index("IsA")
    for child, parent in zip(edges.start[wanted], edges.end[wanted], strict=True):
        parents[edges.terms[child]].add(edges.terms[parent])
    return dict(parents)


def _in_relation(edges: Edges, name: str) -> set[str]:
    wanted = edges.relation == edges.relations.index(name)
    return {edges.terms[i] for ends in (edges.start, edges.end) for i in np.unique(ends[wanted])}


def _below_roots(parents: dict[str, set[str]]) -> set[str]:
    """Terms from which at most `STEPS` IsA edges lead to a root."""
    below = set(ROOTS)
    for _ in range(STEPS):
        below |= {term for term, above in parents.items() if above & below}
    return below


def _thingness(
    place: dict[str, int], rows: NDArray[np.float32], parents: dict[str, set[str]], rank: dict[str, int]
) -> NDArray[np.float32]:
    """(n,) cosine of each term to the nearest kind of thing."""
    members = {kind: [t for t in parents if kind in parents[t] and t in rank and t in place] for kind in KINDS}
    means = [rows[[place[t] for t in found]].mean(axis=0) for found in members.values() if len(found) > 3]
    nearest: NDArray[np.float32] = (rows @ unit_rows(np.stack(means)).T).max(axis=1)
    return nearest


def write(store: VectorStore, kept: list[str]) -> None:
    beside = {path: path.read_bytes() for path in TARGET.glob("*") if path.name in ("PROVENANCE.md", "LICENSE")}
    ranks = np.argsort(np.argsort([store.rank(store.index(term) or 0) for term in kept]))
    VectorStore.write(
        TARGET, kept, store.vectors(kept), ranks, {**store.header, "kept": "terms that name things"}, compact=True
    )
    for path, content in beside.items():
        path.write_bytes(content)


if __name__ == "__main__":
    main()
