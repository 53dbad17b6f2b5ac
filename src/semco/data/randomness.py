"""Random generators that depend only on a key: the same key always gives the same numbers."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

Key = int | str


def derive_seed(seed: int, *key: Key) -> int:
    """Return a 63-bit hash of seed and key, so that neighbouring steps get unrelated random numbers."""
    parts = [part if isinstance(part, str) else int(part) for part in (seed, *key)]
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def make_generator(seed: int, *key: Key) -> torch.Generator:
    """Return a CPU generator for one purpose, for example ``make_generator(seed, step, rank, "labelled")``."""
    return torch.Generator().manual_seed(derive_seed(seed, *key))


def make_numpy_generator(seed: int, *key: Key) -> np.random.Generator:
    """Return a NumPy generator for one purpose."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, *key)))
