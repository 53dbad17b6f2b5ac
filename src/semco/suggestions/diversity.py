"""Which photos to label first when there is no model yet: some of every kind, instead of the first files.

Cheap features of the thumbnail of each photo (colours and edges by place) are clustered; the photo nearest to the
centre of each cluster is taken, those of large clusters first. A large folder is sampled. The wall shows the sampled
photos first, so that their thumbnails are made ahead.

Shapes: N photos, F features, k clusters.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.data.decode import decode
from semco.data.listing import Entry, InMemory
from semco.errors import UserError

SIDE, CELLS, DIRECTIONS = 48, 4, 8
SAMPLED, CLUSTERS = 1500, 48
EDGE_WEIGHT = 0.7  # of edges beside colours
NICENESS = 10  # of the thread that looks at the photos

Floats = NDArray[np.float32]


def features_of(pixels: NDArray[np.uint8]) -> Floats:
    """Return the features (F,) of an image (S, S, 3): mean colour and edge directions of each of 4 x 4 cells."""
    image = pixels.astype(np.float32) / 255
    side = len(image) // CELLS * CELLS
    colours = _by_cell(image[:side, :side]).mean(axis=(2, 3)).reshape(-1)
    grey = image.mean(axis=2)
    across, down = np.gradient(grey, axis=1), np.gradient(grey, axis=0)
    strength = np.hypot(across, down)[:side, :side]
    direction = (np.arctan2(down, across) % np.pi / np.pi * DIRECTIONS).astype(np.int64)[:side, :side] % DIRECTIONS
    edges = np.stack([np.where(direction == d, strength, 0) for d in range(DIRECTIONS)], axis=-1)
    edges = _by_cell(edges).sum(axis=(2, 3)).reshape(-1)
    return np.concatenate([_unit(colours - colours.mean()), EDGE_WEIGHT * _unit(edges)]).astype(np.float32)


def _by_cell(values: NDArray[Any]) -> NDArray[Any]:
    """Return (S, S, C) as (cells, cells, S / cells, S / cells, C)."""
    size = len(values) // CELLS
    return values.reshape(CELLS, size, CELLS, size, -1).swapaxes(1, 2)


def _unit(vector: NDArray[Any]) -> NDArray[Any]:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 1e-9 else vector


def diverse_order(features: Floats, count: int) -> list[int]:
    """Return the central rows of up to ``count`` clusters of rows (N, F), the largest cluster first.

    Choosing the farthest photos first would begin with photos that resemble no others.
    """
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    count = min(count, len(features))
    if count == 0:
        return []
    with threadpool_limits(1):
        found = MiniBatchKMeans(count, random_state=0, n_init=1).fit(features)
    middles = _middles(features, found.labels_, found.cluster_centers_)
    sizes = np.bincount(found.labels_)
    return sorted(middles, key=lambda row: -int(sizes[found.labels_[row]]))


def _middles(features: Floats, clusters: NDArray[np.int32], centres: Floats) -> list[int]:
    """Return the row nearest to the centre of each cluster that has rows."""
    distances = np.linalg.norm(features - centres[clusters], axis=1)
    order = np.argsort(distances, kind="stable")
    _, first = np.unique(clusters[order], return_index=True)
    return [int(order[i]) for i in first]


class DiverseSelection:
    """Chooses photos in a thread of its own; the page shows a random order until it is done."""

    def __init__(self, count: int, thumbnail: Callable[[int], bytes]) -> None:
        self._shuffled = random.Random(0).sample(range(count), count)
        self._sampled = self._shuffled[:SAMPLED]
        self._chosen: list[int] = []
        self.done, self.total = 0, len(self._sampled)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(thumbnail,), name="semco-diversity", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()

    def wait(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def order(self) -> list[int]:
        """Return the numbers of all photos: the selection first, the others in a random order."""
        chosen = self._chosen
        kept = set(chosen)
        return chosen + [number for number in self._shuffled if number not in kept]

    def _run(self, thumbnail: Callable[[int], bytes]) -> None:
        if sys.platform == "linux":  # where the priority is that of the thread: the page stays fast
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        numbers: list[int] = []
        rows: list[Floats] = []
        for number in self._sampled:
            if self._stop.is_set():
                return
            try:
                rows.append(features_of(decode(Entry("", InMemory(thumbnail(number))), SIDE)))
                numbers.append(number)
            except UserError:  # the wall shows which photos cannot be read, and why
                continue
            finally:
                self.done += 1
        if rows:
            self._chosen = [numbers[i] for i in diverse_order(np.stack(rows), CLUSTERS)]
