"""Choosing the unlabelled images that are most worth a label.

The images are chosen so that every image is close to a labelled one: greedy facility location (Wei, Iyer and Bilmes
2015, "Submodularity in data subset selection and active learning"). Near duplicates of chosen or labelled images are
skipped.

Shapes: U images without a label, L labelled images, F features.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Most candidates, and most images that should be close to a labelled one: each candidate is compared with all.
MOST_CANDIDATES, MOST_POINTS = 5_000, 2_000
# Cosine of the features from which two images count as near duplicates.
DUPLICATE = 0.995

Floats = NDArray[np.float32]


def cover(features: Floats, labelled: Floats, count: int) -> list[tuple[int, float]]:
    """Return up to ``count`` positions with the worth of a label for each (0 to 1), most useful first.

    Images are chosen one after the other, each so that all images come as close as possible to a labelled one.
    ``features`` (U, F) and those of the labelled images (L, F) have unit length. The closeness of two images is the
    cosine of their features. The worth is the fraction of the initial distances to the closest labelled image
    that the label removes. Large pools are represented by a random sample.
    """
    rng = np.random.default_rng(0)
    candidates, points = (_sample(len(features), most, rng) for most in (max(MOST_CANDIDATES, count), MOST_POINTS))
    closeness = features[candidates] @ features[points].T
    closest = (features[points] @ labelled.T).max(axis=1, initial=-1.0)
    distance = max(float((1 - closest).sum()), 1e-12)
    gains = (closeness - closest).clip(0).sum(axis=1)
    gains[(features[candidates] @ labelled.T >= DUPLICATE).any(axis=1)] = -1
    chosen: list[tuple[int, float]] = []
    for _ in range(min(count, len(candidates))):
        best = _largest_gain(gains, closeness, closest)
        if gains[best] < 0:
            break  # what is left are near duplicates
        chosen.append((int(candidates[best]), float(gains[best]) / distance))
        closest = np.maximum(closest, closeness[best])
        gains[features[candidates] @ features[candidates[best]] >= DUPLICATE] = -1
    return chosen


def _largest_gain(gains: Floats, closeness: Floats, closest: Floats) -> int:
    """Return the candidate with the largest gain, and bring the gains that were compared up to date.

    Gains only fall as images are chosen, so that older ones are upper bounds (Minoux 1978, "Accelerated greedy
    algorithms"): only those that could still be the largest are computed again.
    """
    is_new = gains < 0
    while not is_new[best := int(gains.argmax())]:
        gains[best] = (closeness[best] - closest).clip(0).sum()
        is_new[best] = True
    return best


def _sample(size: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.arange(size) if size <= most else np.sort(rng.choice(size, most, replace=False))
