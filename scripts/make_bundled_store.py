"""Make a store that comes with the package: build a store of all terms, then keep the terms that name things.

    python scripts/make_bundled_store.py FOLDER [--preset ours|paper] [--whole STORE]

FOLDER contains glove.*, GoogleNews-vectors-* and conceptnet-assertions-*. The preset is that of `semco labels build`:
"ours" makes labels/bundled, to which scripts/make_looks.py then adds looks; "paper" makes labels/plain. A store keeps,
within the number of terms of its preset:

1. frequent words, because class names are composed of them;
2. names of things. Preferred are terms that clearly name a thing, consist of common words, have many edges in the
   graph, and cannot be replaced by their last word: a wall clock is a clock, but a sea urchin is not an urchin;
3. in the store of the paper, what the class names of the registered data sets are looked up as in the store of all
   terms, so that its cells have the vectors of a whole vocabulary.

A term names a thing if its vector is close to one of the `KINDS` (the mean vector of the terms that are of this kind in
the graph), or fairly close while at most four IsA edges lead from it to one of the `ROOTS`.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semco.data.class_names import CLASS_NAMES
from semco.labels.build import PRESETS, RELATIONS, build_preset
from semco.labels.build.readers.conceptnet import Edges, read_conceptnet
from semco.labels.build.readers.glove import read_glove
from semco.labels.matching.lookup import Lookup
from semco.labels.store import CHECKSUMS, VectorStore, unit_rows

LABELS = Path(__file__).parent.parent / "src" / "semco" / "labels"
FOLDERS = {"ours": LABELS / "bundled", "paper": LABELS / "plain"}
# Terms of about 150 bytes: 128 dimensions of one byte, the text and its place.
SIZES = {"ours": 180_000, "paper": 99_000}
FREQUENT = 75_000  # most frequent words to keep
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
CLOSE = 0.33  # cosine to a kind
FAIRLY_CLOSE = {True: 0.15, False: 0.2}  # the same for terms below a root: in the GloVe file, or not
STEPS = 4  # IsA edges to a root
UNKNOWN_RANK = 60_000  # frequency rank of words that are not in the GloVe file
TAXON = re.compile("(genus|family|order|class|phylum|division|tribe|kingdom|species)(?=_|$)")
VAGUE = re.compile("(^|_)(thing|things|type|kind|one|something)(_|$)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--whole", type=Path, help="folder for the store of all terms; an existing store is used again")
    parser.add_argument("--preset", choices=list(FOLDERS), default="ours")
    arguments = parser.parse_args()
    preset, target = arguments.preset, FOLDERS[arguments.preset]
    patterns = {"glove": "glove.*", "word2vec": "GoogleNews*", "conceptnet": "conceptnet-assertions*"}
    files = {kind: next(arguments.folder.glob(pattern)) for kind, pattern in patterns.items()}
    with tempfile.TemporaryDirectory() as temporary:
        whole = arguments.whole or Path(temporary) / "whole"
        if not whole.exists():
            build_preset(preset, dict(files), whole)
        store = VectorStore.open(whole)
        if store.header["recipe"]["relations"] != dict(PRESETS[preset].relations):
            raise SystemExit(f"{whole} was not built with the preset {preset}.")
        edges = read_conceptnet(files["conceptnet"], RELATIONS)
        names = registered_terms(store) if preset == "paper" else set()
        kept = choose(store, read_glove(files["glove"]).terms, edges, names, SIZES[preset])
        write(target, store, kept)
    size = sum(path.stat().st_size for path in target.iterdir())
    print(f"{len(kept)} of {store.size} terms, {size / 1e6:.2f} MB in {target}")


def registered_terms(store: VectorStore) -> set[str]:
    """Return the terms that the class names of the registered data sets are looked up as."""
    matches = [match for names in CLASS_NAMES.values() for match in Lookup(store).find_all(names)[0]]
    return {term for match in matches for term in match.terms}


def choose(store: VectorStore, frequent: list[str], edges: Edges, names: set[str], size: int) -> list[str]:
    """Return at most ``size`` terms to keep, by the rules above; ``names`` are kept in any case."""
    terms = list(store.terms())
    rows = store.vectors(terms)
    position = {term: i for i, term in enumerate(terms)}
    degree = dict(zip(edges.terms, _degrees(edges).tolist(), strict=True))
    parents = _parents(edges)
    rank = {term: i for i, term in enumerate(frequent)}
    thing, below = _cosine_to_kinds(position, rows, parents, rank), _below_roots(parents)
    synonyms = _in_relation(edges, "Synonym")
    written = [t for t in terms if _is_name(t) and (t in rank or not _is_taxon(t, parents))]
    kept = {term for term in frequent[:FREQUENT] if _is_name(term) and term in position} | names
    nouns = [t for t in written if (t in parents or t in synonyms) and t not in kept]
    things = [t for t in nouns if thing[position[t]] >= (FAIRLY_CLOSE[t in rank] if t in below else CLOSE)]
    words = {term for term in things if "_" not in term} | kept
    scores = {}
    for term in things:
        parts = [part for part in re.split("_|'s?_|'s?$", term) if part]
        if len(parts) > 1 and parts[-1] in words:  # distance to the word that would replace the term
            loss = 1.0 - float(rows[position[term]] @ rows[position[parts[-1]]])
        else:
            loss = 1.0 if len(parts) > 1 else 1.6
        rarest = max(rank.get(part, UNKNOWN_RANK) for part in parts)
        familiarity = np.log(1 + degree[term]) - np.log(1000 + rarest)
        scores[term] = 4 * thing[position[term]] + 2 * loss + familiarity
    ordered = sorted((t for t in scores if not VAGUE.search(t)), key=lambda term: (-scores[term], term))
    return sorted(kept) + ordered[: size - len(kept)]


def _is_name(term: str) -> bool:
    return re.fullmatch("[a-z_'éèêüöäñç]+", term) is not None


def _is_taxon(term: str, parents: dict[str, set[str]]) -> bool:
    """Return whether a term names a genus, family or the like: the graph has many, but they are rarely class names."""
    return any(map(TAXON.search, [term, *parents.get(term, ())]))


def _degrees(edges: Edges) -> NDArray[np.int64]:
    counts = [np.bincount(ends, minlength=len(edges.terms)) for ends in (edges.start, edges.end)]
    return counts[0] + counts[1]


def _parents(edges: Edges) -> dict[str, set[str]]:
    """Return the parents of each term: the ends of its IsA edges."""
    parents: dict[str, set[str]] = defaultdict(set)
    wanted = edges.relation == edges.relations.index("IsA")
    for child, parent in zip(edges.start[wanted], edges.end[wanted], strict=True):
        parents[edges.terms[child]].add(edges.terms[parent])
    return dict(parents)


def _in_relation(edges: Edges, name: str) -> set[str]:
    """Return the terms with an edge of this relation."""
    wanted = edges.relation == edges.relations.index(name)
    return {edges.terms[i] for ends in (edges.start, edges.end) for i in np.unique(ends[wanted])}


def _below_roots(parents: dict[str, set[str]]) -> set[str]:
    """Return the terms from which at most `STEPS` IsA edges lead to a root."""
    below = set(ROOTS)
    for _ in range(STEPS):
        below |= {term for term, above in parents.items() if above & below}
    return below


def _cosine_to_kinds(
    position: dict[str, int], rows: NDArray[np.float32], parents: dict[str, set[str]], rank: dict[str, int]
) -> NDArray[np.float32]:
    """Return the cosine (n,) of each term to the nearest of the `KINDS`."""
    members = {kind: [t for t in parents if kind in parents[t] and t in rank and t in position] for kind in KINDS}
    means = [rows[[position[t] for t in found]].mean(axis=0) for found in members.values() if len(found) > 3]
    nearest: NDArray[np.float32] = (rows @ unit_rows(np.stack(means)).T).max(axis=1)
    return nearest


def write(target: Path, store: VectorStore, kept: list[str]) -> None:
    """Write the store; its licence and provenance files stay."""
    beside = {path: path.read_bytes() for path in target.glob("*") if path.name in ("PROVENANCE.md", "LICENSE")}
    ranks = np.argsort(np.argsort([store.rank(store.index(term) or 0) for term in kept]))
    header = {key: value for key, value in store.header.items() if key != CHECKSUMS}
    header["kept"] = "frequent words, and terms that name things"
    VectorStore.write(target, kept, store.vectors(kept), ranks, header, compact=True)
    for path, content in beside.items():
        path.write_bytes(content)


if __name__ == "__main__":
    main()
