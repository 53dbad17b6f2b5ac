"""What each eps would do: the one sensitive hyper-parameter, chosen with open eyes.

DBSCAN with one sample a core joins classes as single linkage does, so the K - 1 heights at which groups
merge say everything: between two heights nothing changes.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semco.labels.embeddings import LabelEmbeddings, Matrix
from semco.labels.groups import group

# The paper's groups of CIFAR-100 (Table "class groups obtained by clustering the retrofitted embeddings").
REFERENCE_SHARE = 9 / 4950
LARGEST_PART = 0.1  # a suggested eps keeps every group within this part of the classes (but three may always meet)


Members = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Setting:
    """The groups at one eps, in numbers."""

    eps: float
    groups: int
    together: int  # groups of more than one class
    largest: int
    joined: Members  # groups that the setting before did not have


@dataclass(frozen=True)
class Tuning:
    settings: tuple[Setting, ...]
    suggested: float  # the middle of the largest gap between merges, see `suggested_eps`
    default: float  # the source's own


def tune(embeddings: LabelEmbeddings, eps: tuple[float, ...] | None = None) -> Tuning:
    """The groups at each ``eps``, or at round steps that span all there is to see."""
    heights = merge_heights(embeddings.matrix)
    steps = eps if eps is not None else round_steps(heights)
    members = [group(embeddings, value).members for value in steps]
    before = [(), *members[:-1]]
    settings = tuple(_setting(*row) for row in zip(steps, members, before, strict=True))
    return Tuning(settings, suggested_eps(embeddings.matrix), embeddings.default_eps)


def _setting(eps: float, members: Members, before: Members) -> Setting:
    together = [names for names in members if len(names) > 1]
    joined = tuple(names for names in together if names not in before)
    return Setting(eps, len(members), len(together), max(map(len, members)), joined)


def distances(matrix: Matrix) -> NDArray[np.float64]:
    """(K, K) cosine distances of L2-normalised rows."""
    rows = matrix.astype(np.float64)
    found: NDArray[np.float64] = np.clip(1.0 - rows @ rows.T, 0.0, 2.0)
    np.fill_diagonal(found, 0.0)
    return (found + found.T) / 2


def linkage(matrix: Matrix) -> NDArray[np.float64]:
    """(K - 1, 4) single-linkage merges, as SciPy gives them."""
    from scipy.cluster.hierarchy import linkage as scipy_linkage
    from scipy.spatial.distance import squareform

    merges: NDArray[np.float64] = scipy_linkage(squareform(distances(matrix), checks=False), method="single")
    return merges


def merge_heights(matrix: Matrix) -> NDArray[np.float64]:
    """(K - 1,) the values of eps at which two groups become one, ascending."""
    if len(matrix) < 2:
        return np.zeros(0)
    heights: NDArray[np.float64] = linkage(matrix)[:, 2]
    return heights


def round_steps(heights: NDArray[np.float64], most: int = 24) -> tuple[float, ...]:
    """Multiples of a round number from 0 to the height at which everything is one group."""
    top = float(heights[-1]) if len(heights) else 0.0
    step = next(step for step in (0.005, 0.01, 0.02, 0.025, 0.05, 0.1) if top / step <= most)
    return tuple(round(i * step, 4) for i in range(int(np.ceil(top / step)) + 1))


def suggested_eps(matrix: Matrix) -> float:
    """The middle of the largest gap between merges that groups something, but not too much.

    Merges crowd as eps grows, so the gap after the i-th is measured against the usual spacing there:
    i log(h[i+1] / h[i]), which for heights that grow as any power of their number is equally large everywhere
    (Rényi's spacings). No group may hold more than a tenth of the classes then (three may always meet). Where there
    is no such gap, half the first height: no groups.
    """
    if len(matrix) < 2:
        return 0.0
    merges = linkage(matrix)
    heights, sizes = np.maximum(merges[:, 2], 1e-9), merges[:, 3]
    allowed = np.maximum.accumulate(sizes)[:-1] <= max(3, LARGEST_PART * len(matrix))
    gaps = np.arange(1, len(heights)) * np.diff(np.log(heights)) * allowed
    if not gaps.size or gaps.max() <= 0:
        return float(heights[0] / 2)
    widest = int(np.argmax(gaps))
    return float(heights[widest] + heights[widest + 1]) / 2


def eps_for_share(matrix: Matrix, share: float = REFERENCE_SHARE) -> float:
    """The eps at which this share of all pairs are neighbours: how eps is carried from scale to scale.

    Rounded down: ten unlike classes, with 45 pairs, stay alone.
    """
    pairs = np.sort(distances(matrix)[np.triu_indices(len(matrix), k=1)])
    if not pairs.size:
        return 0.0
    near = min(int(share * len(pairs)), len(pairs) - 1)
    below = float(pairs[near - 1]) if near else 0.0
    return (below + float(pairs[near])) / 2
