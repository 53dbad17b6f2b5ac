"""Compare values of eps: which classes each one groups, and which one the distances suggest.

DBSCAN with min_samples = 1 groups classes as single linkage does, so the groups change only at the K - 1 distances at
which single linkage merges two groups. The rule "evidence" merges as complete linkage does; its eps was chosen on names
of many kinds, so that only values near it are compared, and one is suggested that does not cut through close merges.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from semco.groups.grouping import EVIDENCE_EPS, Rule, evidence_distances, group_classes
from semco.labels.distances import distances
from semco.labels.embeddings import LabelEmbeddings, Matrix

NEAR = 0.1  # an eps within this share of the default counts as near it
LARGEST_SHARE = 0.1  # at a suggested eps no group has a larger share of the classes (but three classes are always fine)

Members = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Setting:
    """The groups at one eps."""

    eps: float
    groups: int  # number of groups
    together: int  # groups of more than one class
    largest: int  # classes in the largest group
    joined: Members  # groups of more than one class that the previous eps did not have


@dataclass(frozen=True)
class Tuning:
    """The groups at several values of eps, with the suggested and the default value."""

    suggested: float  # see `suggested_eps`
    reason: str  # for people: why it is suggested
    default: float  # of the label source
    settings: tuple[Setting, ...]
    rule: Literal["evidence", "dbscan"] = "dbscan"  # the rule of all these values


def tune(embeddings: LabelEmbeddings, eps: tuple[float, ...] | None = None, rule: Rule | None = None) -> Tuning:
    """Return the groups at each ``eps``, by default at round values.

    They are the values up to the first that gives one group, or those near the default for the rule "evidence".
    """
    if embeddings.evidence is not None and rule != "dbscan":
        steps = eps if eps is not None else tuple(round(EVIDENCE_EPS + 0.05 * i, 2) for i in range(-7, 8))
        suggested, reason = suggested_near_default(evidence_heights(embeddings))
        return Tuning(suggested, reason, EVIDENCE_EPS, _settings(embeddings, steps, "evidence"), "evidence")
    heights = merge_heights(embeddings.matrix)
    steps = eps if eps is not None else round_steps(heights)
    suggested = suggested_eps(embeddings.matrix)
    reason = suggestion_reason(heights, suggested)
    return Tuning(suggested, reason, embeddings.default_eps, _settings(embeddings, steps, "dbscan"))


def _settings(embeddings: LabelEmbeddings, steps: Sequence[float], rule: Rule) -> tuple[Setting, ...]:
    members = [group_classes(embeddings, value, rule).members for value in steps]
    before = [(), *members[:-1]]
    return tuple(_setting(*row) for row in zip(steps, members, before, strict=True))


def evidence_heights(embeddings: LabelEmbeddings) -> NDArray[np.float64]:
    """Return the values of eps (K - 1,) at which the rule "evidence" merges two groups, ascending."""
    from scipy.cluster.hierarchy import complete
    from scipy.spatial.distance import squareform

    if len(embeddings.names) < 2:
        return np.zeros(0)
    heights: NDArray[np.float64] = complete(squareform(evidence_distances(embeddings), checks=False))[:, 2]
    return heights


def suggested_near_default(heights: NDArray[np.float64]) -> tuple[float, str]:
    """Return the middle of the widest gap between merges within a tenth of the default eps, and why."""
    low, high = (1 - NEAR) * EVIDENCE_EPS, (1 + NEAR) * EVIDENCE_EPS
    inside = heights[(heights > low) & (heights < high)]
    if not len(inside):
        return EVIDENCE_EPS, f"the default; between {low:.3f} and {high:.3f} no group changes"
    edges = np.asarray([low, *inside, high])
    widest = int(np.argmax(np.diff(edges)))
    below, above = float(edges[widest]), float(edges[widest + 1])
    reason = f"near the default, no group changes between {below:.3f} and {above:.3f}, the widest gap there"
    return (below + above) / 2, reason


def suggestion_reason(heights: NDArray[np.float64], eps: float) -> str:
    """Return why an eps is suggested, given the merge heights (K - 1,): the merges just below and above it."""
    below, above = heights[heights <= eps], heights[heights > eps]
    if not len(below):
        return "every other value would make a group with more than a tenth of the classes, so this one groups nothing"
    where = f"between the merges at {below[-1]:.3f} and {above[0]:.3f}" if len(above) else f"after {below[-1]:.3f}"
    return f"the largest gap for its place, {where}: small changes of eps there change no group"


def _setting(eps: float, members: Members, before: Members) -> Setting:
    together = [names for names in members if len(names) > 1]
    joined = tuple(names for names in together if names not in before)
    return Setting(eps, len(members), len(together), max(map(len, members)), joined)


def linkage(matrix: Matrix) -> NDArray[np.float64]:
    """Return the merges (K - 1, 4) of single linkage in SciPy's format."""
    from scipy.cluster.hierarchy import linkage as scipy_linkage
    from scipy.spatial.distance import squareform

    merges: NDArray[np.float64] = scipy_linkage(squareform(distances(matrix), checks=False), method="single")
    return merges


def merge_heights(matrix: Matrix) -> NDArray[np.float64]:
    """Return the values of eps (K - 1,) at which two groups merge, ascending."""
    if len(matrix) < 2:
        return np.zeros(0)
    heights: NDArray[np.float64] = linkage(matrix)[:, 2]
    return heights


def round_steps(heights: NDArray[np.float64], max_steps: int = 24) -> tuple[float, ...]:
    """Return multiples of a round number from 0 to the eps at which all classes are one group."""
    top = float(heights[-1]) if len(heights) else 0.0
    step = next(step for step in (0.005, 0.01, 0.02, 0.025, 0.05, 0.1) if top / step <= max_steps)
    return tuple(round(i * step, 4) for i in range(int(np.ceil(top / step)) + 1))


def suggested_eps(matrix: Matrix) -> float:
    """Return the middle of the largest gap between two merges at which no group is too large.

    Merges get denser as eps grows, so gaps are normalised: the gap after the i-th merge counts as i log(h[i+1] / h[i]),
    which is constant for heights that grow as a power of i (Rényi's spacings). A group is too large if it has more than
    a tenth of the classes (`LARGEST_SHARE`) and more than three. Without such a gap the result is half the first
    height, which gives no groups.
    """
    if len(matrix) < 2:
        return 0.0
    merges = linkage(matrix)
    heights, sizes = np.maximum(merges[:, 2], 1e-9), merges[:, 3]
    allowed = np.maximum.accumulate(sizes)[:-1] <= max(3, LARGEST_SHARE * len(matrix))
    gaps = np.arange(1, len(heights)) * np.diff(np.log(heights)) * allowed
    if not gaps.size or gaps.max() <= 0:
        return float(heights[0] / 2)
    widest = int(np.argmax(gaps))
    return float(heights[widest] + heights[widest + 1]) / 2
