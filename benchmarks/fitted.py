"""Time and memory of a semantic probe on random features: the pool that it reads does not grow with the photos."""

from __future__ import annotations

import resource
import time
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from semco.methods.semantic_probe import SemanticProbe, SemanticProbeConfig
from semco.types import Task


class RandomPhotos:
    """`semco.methods.base.Photos` of random numbers, made when they are read."""

    def __init__(self, count: int, features: int) -> None:
        self._count, self._features = count, features

    def __len__(self) -> int:
        return self._count

    def read(self, position: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(int(position[0]))
        return torch.rand(len(position), 2, self._features, generator=generator)


def bench_fitted(pool: int, classes: int, labels: int, features: int = 1280) -> dict[str, Any]:
    """Fit a probe to ``labels`` photos per class and a pool, as a run does."""
    names = tuple(f"class {i}" for i in range(classes))
    counts = torch.full((classes,), labels)
    task = Task(names, normalize(torch.randn(classes, 128), dim=1), torch.arange(classes), counts, pool)
    method = SemanticProbe(SemanticProbeConfig(hedge=False), task)
    read = RandomPhotos(min(pool, method.most_pool), features)
    before = time.process_time()
    transform = method.transform(read)
    x = torch.cat([transform(read.read(part)) for part in torch.arange(len(read)).split(1024)])
    transformed = time.process_time()
    method.fit(x[: classes * labels], torch.arange(classes).repeat(labels), x)
    return {
        "photos_read": len(read),
        "transform_cpu_s": transformed - before,
        "fit_cpu_s": time.process_time() - transformed,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
