"""How alike things are that photos show, by their names: vectors of a network that learned from photos with captions.

CLIP (Radford et al. 2021) places a photo and its caption close to each other. Therefore the names of things that look
alike in photos, and occur in similar ones, are close as well. Only the vectors of some 1,400 everyday names are here
(``PROVENANCE.md``), not the network, so this says something about two classes if both names are among them.

Shapes: K classes, R names with vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semco.labels.store import unit_rows

FILE = Path(__file__).parent / "captions.npz"


@cache
def caption_vectors() -> tuple[dict[str, int], NDArray[np.float32]]:
    """Return the row of each noun, and the unit rows (R, 256)."""
    with np.load(FILE) as arrays:
        nouns = arrays["terms"].tobytes().decode().split("\n")
        return {noun: i for i, noun in enumerate(nouns)}, unit_rows(arrays["vectors"].astype(np.float32))


def caption_cosines(nouns: Sequence[str | None]) -> NDArray[np.float64]:
    """Return the cosines (K, K) of classes; NaN where one of the two has no vector."""
    rows, vectors = caption_vectors()
    found = np.full((len(nouns), len(nouns)), np.nan)
    known = [i for i, noun in enumerate(nouns) if noun in rows]
    chosen = vectors[[rows[noun] for noun in nouns if noun in rows]]
    found[np.ix_(known, known)] = chosen @ chosen.T
    return found
