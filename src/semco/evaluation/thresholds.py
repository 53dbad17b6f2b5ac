"""Thresholds of familiarity below which a photo shows none of the classes, each with its error.

Shapes: N images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from semco.errors import UserError

SHARES = (0.01, 0.05, 0.1)


@dataclass(frozen=True)
class Threshold:
    """A threshold of familiarity that rejects a given share of the photos of the classes."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # the file may be untrusted

    share: Annotated[float, Field(gt=0, lt=1)]
    """The share of the photos of the classes that is rejected."""
    least: Annotated[float, Field(ge=-1.01, le=1.01)]  # a cosine, rounded
    """The lowest familiarity that is not rejected."""


Thresholds = Annotated[tuple[Threshold, ...], Field(max_length=20)]


def describe_share(share: float) -> str:
    """Return the share that a threshold rejects wrongly, in one phrase."""
    return f"rejects {100 * share:g} % of photos of your classes"


def find_thresholds(familiarity: NDArray[np.floating]) -> tuple[Threshold, ...]:
    """Return the thresholds for `SHARES`, given the familiarity (N,) of photos whose labels were held out.

    A new value is below the r-th lowest of N values of the same kind with probability r / (N + 1). So r is
    share * (N + 1), rounded down; if that is 0, the share has no threshold.
    """
    ordered = np.sort(familiarity)
    ranks = {share: int(share * (len(ordered) + 1) + 1e-9) for share in SHARES}
    return tuple(Threshold(share, float(ordered[rank - 1])) for share, rank in ranks.items() if rank)


def choose_threshold(thresholds: Sequence[Threshold], share: float) -> Threshold:
    """Return the threshold that rejects this share of the photos of the classes."""
    for each in thresholds:
        if each.share == share:
            return each
    if not thresholds:
        raise UserError(
            "this model cannot answer 'none of these': it has a class of its own for that, other class names, layers "
            "that were trained, or fewer than 9 labels; a folder other/ with such photos always works."
        )
    known = ", ".join(f"{each.share:g}" for each in thresholds)
    raise UserError(f"'none of these' can reject {known} of the photos of the classes, not {share:g}; choose one.")
