"""Images that occur more than once: the same file, or almost the same picture.

Two pictures are near duplicates if at most 7 of the 63 bits of their hashes differ, one is at most 40 of 255 levels
brighter, and apart from that their 8 x 8 pixels differ by at most 12 levels on average (docs/lab/data.md). Four pieces
of 16 bits are compared: if at most 7 bits differ, one of the pieces differs in at most one bit. So only images that
share a piece, or a piece with one bit flipped, are compared.

Shapes: N images, P pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semco.inspection.facts import ImageFacts
from semco.inspection.pictures import SMALL_SIZE

MOST_BITS = 7
SMALL_BYTES = 3 * SMALL_SIZE**2
MOST_BRIGHTER, MOST_DIFFERENCE = 40.0, 12.0
PIECE_BITS = 16
# Pairs that are compared at a time.
BATCH = 1 << 22
# Images with the same hash of which all pairs are compared; of more, only neighbours in the order of their pixels.
MOST_EQUAL = 50

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Duplicates:
    """Positions of images that show the same picture; ``is_exact``: their files are identical."""

    members: tuple[int, ...]
    is_exact: bool


def find_duplicates(facts: Sequence[ImageFacts]) -> list[Duplicates]:
    """Return the groups of images that occur more than once, in the order of their first members."""
    by_content: dict[bytes, list[int]] = defaultdict(list)
    for position, each in enumerate(facts):
        if each.is_readable:
            by_content[each.content].append(position)
    first = np.array([members[0] for members in by_content.values()], dtype=np.int64)
    looks = np.array([facts[i].look for i in first], dtype=np.uint64)
    small = np.frombuffer(b"".join(facts[i].small for i in first), np.uint8).reshape(len(first), SMALL_BYTES)
    groups = _connected(len(first), near_pairs(looks, small))
    copies = list(by_content.values())
    found = [Duplicates(tuple(sorted(p for i in group for p in copies[i])), len(group) == 1) for group in groups]
    return sorted((each for each in found if len(each.members) > 1), key=lambda each: each.members)


def near_pairs(looks: NDArray[np.uint64], small: NDArray[np.uint8]) -> Index:
    """Return the pairs (P, 2) of near duplicates among images with hashes (N,) and small pictures (N, 192)."""
    unique, inverse = np.unique(looks, return_inverse=True)
    members = np.split(np.argsort(inverse, kind="stable"), np.cumsum(np.bincount(inverse, minlength=len(unique)))[:-1])
    found = [_confirmed(np.array(list(_equal_pairs(members, small)), dtype=np.int64).reshape(-1, 2), small)]
    for left, right in _candidates(unique):
        # A few of the images with the same hash represent all of them.
        pairs = [(a, b) for i, j in zip(left, right, strict=True) for a in members[i][:4] for b in members[j][:4]]
        found.append(_confirmed(np.array(pairs, dtype=np.int64).reshape(-1, 2), small))
    return np.concatenate([np.empty((0, 2), np.int64), *found])


def _equal_pairs(members: Sequence[Index], small: NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    """Yield pairs of images with the same hash."""
    for group in members:
        if len(group) > MOST_EQUAL:
            order = group[np.lexsort(small[group].T[::-1])]
            yield from zip(order[:-1].tolist(), order[1:].tolist(), strict=True)
        else:
            yield from ((int(a), int(b)) for n, a in enumerate(group) for b in group[n + 1 :])


def _candidates(looks: NDArray[np.uint64]) -> Iterator[tuple[Index, Index]]:
    """Yield positions of pairs of different hashes (N,) with at most `MOST_BITS` different bits; each pair once."""
    seen: set[tuple[int, int]] = set()
    for number in range(64 // PIECE_BITS):
        pieces = ((looks >> np.uint64(PIECE_BITS * number)) & np.uint64(0xFFFF)).astype(np.int64)
        order = np.argsort(pieces, kind="stable")
        for turned in (0, *(1 << bit for bit in range(PIECE_BITS))):
            for left, right in _equal_keys(pieces ^ turned, pieces[order], order):
                close = (left < right) & (np.bitwise_count(looks[left] ^ looks[right]) <= MOST_BITS)
                new = [p for p in zip(left[close].tolist(), right[close].tolist(), strict=True) if p not in seen]
                seen.update(new)
                if new:
                    columns = np.array(new, dtype=np.int64)
                    yield columns[:, 0], columns[:, 1]


def _equal_keys(keys: Index, sorted_keys: Index, order: Index) -> Iterator[tuple[Index, Index]]:
    """Yield the positions of keys (N,) and of entries of a sorted table with the same key, some pairs at a time."""
    start = np.searchsorted(sorted_keys, keys, "left")
    counts = np.searchsorted(sorted_keys, keys, "right") - start
    total = np.cumsum(counts)
    low = 0
    while low < len(keys):
        before = int(total[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(total, before + BATCH, "right")))
        some = counts[low:high]
        left = np.repeat(np.arange(low, high), some)
        offset = np.arange(len(left)) - np.repeat(np.cumsum(some) - some, some)
        yield left, order[np.repeat(start[low:high], some) + offset]
        low = high


def _confirmed(pairs: Index, small: NDArray[np.uint8]) -> Index:
    """Return the pairs (P, 2) whose small pictures are almost the same."""
    if not len(pairs):
        return pairs
    difference = small[pairs[:, 0]].astype(np.float32) - small[pairs[:, 1]]
    brighter = difference.mean(axis=1, keepdims=True)
    is_same = np.abs(difference - brighter).mean(axis=1) <= MOST_DIFFERENCE
    same: Index = pairs[is_same & (np.abs(brighter[:, 0]) <= MOST_BRIGHTER)]
    return same


def _connected(count: int, pairs: Index) -> list[list[int]]:
    """Return the groups of 0..count-1 that pairs (P, 2) connect; numbers without a pair are groups of their own."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if count == 0:
        return []
    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    _, component = connected_components(graph, directed=False)
    groups: dict[int, list[int]] = defaultdict(list)
    for position, number in enumerate(component.tolist()):
        groups[number].append(position)
    return list(groups.values())
