"""The result of the vector readers, and how it is collected block by block.

Shapes: n terms, d embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from semco.labels.build.readers.stream import decode
from semco.labels.matching.spelling import normalise

LARGEST_DIM = 65_536  # numbers per vector


@dataclass(frozen=True)
class VectorSet:
    """Terms with their vectors in the order of the file, which is by decreasing frequency."""

    terms: list[str]  # n, unique, normalised
    matrix: NDArray[np.float32]  # (n, d)
    lines: int = 0  # words read
    duplicates: int = 0  # words skipped because an earlier word has the same term
    latin1: int = 0  # words that are not valid UTF-8 and were decoded as Latin-1
    unusable: int = 0  # words without a term: empty, or in another language


@dataclass
class VectorCollector:
    """Collects the terms of words block by block: the first word of each term, at most ``limit`` terms."""

    limit: int | None = None
    lines: int = 0
    duplicates: int = 0
    latin1: int = 0
    unusable: int = 0
    _seen: dict[str, None] = field(default_factory=dict)
    _blocks: list[NDArray[np.float32]] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.limit is not None and len(self._seen) >= self.limit

    def add(self, words: Sequence[bytes], rows: NDArray[np.float32]) -> None:
        """Add the words of one block with their ``rows`` (m, d)."""
        kept = [i for i, word in enumerate(words) if self._is_new(word)]
        self.lines += len(words)
        self._blocks.append(rows if len(kept) == len(rows) else rows[kept])

    def result(self, dim: int) -> VectorSet:
        """Return everything collected; each block is freed once it is copied."""
        terms = list(self._seen)
        matrix = np.empty((len(terms), dim), dtype=np.float32)
        start = 0
        self._blocks.reverse()
        while self._blocks:
            block = self._blocks.pop()
            matrix[start : start + len(block)] = block
            start += len(block)
        assert start == len(terms)
        return VectorSet(terms, matrix, self.lines, self.duplicates, self.latin1, self.unusable)

    def _is_new(self, word: bytes) -> bool:
        if self.is_full:
            return False
        text, latin1 = decode(word)
        self.latin1 += latin1
        term = normalise(text)
        if not term:
            self.unusable += 1
        elif term in self._seen:
            self.duplicates += 1
        else:
            self._seen[term] = None
            return True
        return False
