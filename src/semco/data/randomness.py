"""Randomness as a function of a key: the same key gives the same numbers, whatever was drawn before."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

Key = int | str


def derive_seed(seed: int, *key: Key) -> int:
    """63 bits that differ for every key, so that neighbouring steps share nothing."""
    parts = [part if isinstance(part, str) else int(part) for part in (seed, *key)]
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def make_generator(seed: int, *key: Key) -> torch.Generator:
    """A generator on the host for one purpose, for example ``make_generator(seed, step, rank, "labelled")``."""
    return torch.Generator().manual_seed(derive_seed(seed, *key))


def make_numpy_generator(seed: int, *key: Key) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(derive_seed(seed, *key)))
