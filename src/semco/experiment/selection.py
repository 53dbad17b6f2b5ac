"""Choosing the unlabelled images that are most worth a label.

With few labels, the predictions are wrong too often to tell what the model does not know. The images are then chosen so
that every image is close to a labelled one: greedy facility location (Wei, Iyer and Bilmes 2015, "Submodularity in data
subset selection and active learning"). With more labels, an image is worth a label if the model is unsure of it, or if
its heads disagree; of the images with the highest worth, one is taken from each of as many clusters of features as
labels are wanted (Zhdanov 2019, "Diverse mini-batch active learning"). Near duplicates of chosen or labelled images are
skipped in both cases.

Shapes: U images without a label, L labelled images, K classes, F features.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

# Labels per class below which the images are chosen by their features alone.
FEW_LABELS = 10
# Most images that are compared with each other: those that may be chosen, and those that should be close to one.
MOST_CANDIDATES, MOST_POINTS = 5_000, 2_000
# Candidates per suggestion: the images with the highest worth, among which clusters are made.
CANDIDATES = 10
# Uncertain images that are chosen together when more are ranked.
AT_A_TIME = 20
# Cosine of the features from which two images count as near duplicates.
DUPLICATE = 0.995

Floats = NDArray[np.float32]


def select(
    scores: Callable[[], dict[str, Floats]], features: Floats, labelled: Floats, classes: int, count: int
) -> list[tuple[int, float]]:
    """Return ``count`` positions with the worth of a label for each (0 to 1), the highest first.

    ``scores`` returns the probabilities (U, K) of each head; it is called only if they count. ``features`` (U, F) and
    those of the labelled images (L, F) have unit length.
    """
    if len(labelled) < FEW_LABELS * classes:
        return cover(features, labelled, count)
    worth = worth_of(scores())
    return [(i, float(worth[i])) for i in choose(worth, features, labelled, count)]


def rank(
    scores: Callable[[], dict[str, Floats]], features: Floats, labelled: Floats, classes: int, count: int
) -> list[int]:
    """Return up to ``count`` positions, most useful first, so that a person may stop after any number of them.

    The arguments are those of `select`. Uncertain images are chosen a few at a time: of 200 clusters at once, those
    with the highest worth would show the same doubt many times.
    """
    if len(labelled) < FEW_LABELS * classes:
        return [position for position, _ in cover(features, labelled, count)]
    worth, chosen = worth_of(scores()), np.zeros(0, dtype=np.int64)
    while len(chosen) < min(count, len(features)):
        rest = np.setdiff1d(np.arange(len(features)), chosen)
        known = np.concatenate([labelled, features[chosen]])
        found = choose(worth[rest], features[rest], known, min(AT_A_TIME, count - len(chosen), len(rest)))
        if not found:
            break  # what is left are near duplicates
        chosen = np.concatenate([chosen, rest[found]])
    return [int(position) for position in chosen]


def cover(features: Floats, labelled: Floats, count: int) -> list[tuple[int, float]]:
    """Choose images one after the other, each so that all images come as close as possible to a labelled one.

    The closeness of two images is the cosine of their features. The worth is the part of the distances to the closest
    labelled image, at the start, that the label removes. Of large pools, random images stand for all.
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


def worth_of(scores: dict[str, Floats]) -> NDArray[np.float64]:
    """Return the worth of a label for each image: the mean of uncertainty and disagreement, (U,) from 0 to 1.

    Uncertainty is the entropy of the mean probabilities, divided by log K. Disagreement is the total variation distance
    of the two heads, half the sum of absolute differences. With one head, uncertainty alone counts.
    """
    heads = [each.astype(np.float64) for each in scores.values()]
    mean = np.mean(heads, axis=0)
    entropy = -(mean * np.log(mean.clip(1e-12))).sum(axis=1) / np.log(mean.shape[1])
    if len(heads) == 1:
        return np.asarray(entropy)
    return np.asarray((entropy + np.abs(heads[0] - heads[1]).sum(axis=1) / 2) / 2)


def choose(worth: NDArray[np.float64], features: Floats, labelled: Floats, count: int) -> list[int]:
    """Return ``count`` positions: from each cluster of the candidates the one with the highest worth, in that order.

    ``features`` (U, F) and those of the labelled images have unit length. If near duplicates leave too few, the
    remaining places go to the images with the highest worth.
    """
    from sklearn.cluster import MiniBatchKMeans  # takes a second to import
    from threadpoolctl import threadpool_limits

    order = np.argsort(-worth, kind="stable")
    candidates = order[: max(CANDIDATES * count, 200)]
    with threadpool_limits(1):
        clusters = MiniBatchKMeans(min(count, len(candidates)), random_state=0, n_init=1).fit_predict(
            features[candidates], sample_weight=worth[candidates].clip(1e-6)
        )
    chosen: list[int] = []
    taken: set[int] = set()
    for candidate, cluster in zip(candidates.tolist(), clusters.tolist(), strict=True):
        if cluster not in taken and not _is_near(features[candidate], features[chosen], labelled):
            taken.add(cluster)
            chosen.append(candidate)
    kept = set(chosen)
    rest = (int(i) for i in order if int(i) not in kept)
    for candidate in rest:
        if len(chosen) == count:
            break
        if not _is_near(features[candidate], features[chosen], labelled):
            chosen.append(candidate)
    return sorted(chosen[:count], key=lambda i: -worth[i])


def _is_near(feature: Floats, *others: Floats) -> bool:
    return any(len(each) and float((each @ feature).max()) >= DUPLICATE for each in others)
