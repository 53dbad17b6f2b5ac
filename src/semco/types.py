"""What travels between the rooms of the package.

Shapes: B labelled images, U unlabelled images, K classes, d embedding size, F features, Q label groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class ViewCounts:
    """How many views of each image a method asks for; data code makes just these."""

    labelled_weak: int = 1
    labelled_strong: int = 0
    unlabelled_weak: int = 0
    unlabelled_strong: int = 0


@dataclass(frozen=True)
class Views:
    """Views of the same images: each tensor is (N, C, H, W) float, normalised, channels-last."""

    weak: tuple[Tensor, ...] = ()
    strong: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class Batch:
    """One training step's images. What an unlabelled image truly shows is not in here."""

    labels: Tensor  # (B,) int64
    labelled: Views
    unlabelled: Views
    labelled_index: Tensor  # (B,) int64, position in the labelled set
    unlabelled_index: Tensor  # (U,) int64, position in the unlabelled pool


@dataclass(frozen=True)
class Outputs:
    """What the network says about one view. Heads that were not built are None."""

    features: Tensor  # (N, F)
    logits: Tensor  # (N, K), one-hot head
    embedding: Tensor | None = None  # (N, d), semantic head, not normalised
    rotation: Tensor | None = None  # (N, 4), rotation head

    def detach(self) -> Outputs:
        return Outputs(
            features=self.features.detach(),
            logits=self.logits.detach(),
            embedding=None if self.embedding is None else self.embedding.detach(),
            rotation=None if self.rotation is None else self.rotation.detach(),
        )


@dataclass(frozen=True)
class Progress:
    """Where the run is, and the step's own source of randomness (a function of seed and step)."""

    step: int
    total_steps: int
    steps_per_epoch: int
    generator: torch.Generator

    @property
    def fraction(self) -> float:
        return self.step / max(1, self.total_steps)

    @property
    def epoch(self) -> int:
        return self.step // self.steps_per_epoch


@dataclass(frozen=True)
class PseudoLabels:
    """What one head says about the unlabelled images of a step."""

    labels: Tensor  # (U,) int64
    mask: Tensor  # (U,) float in [0, 1]; 0 = not retained
    confidence: Tensor  # (U,) float


@dataclass(frozen=True)
class StepResult:
    """Named losses with their weights, and what is worth logging.

    ``total`` is what is minimised. ``metrics`` are 0-dim tensors, averaged over the steps between two log lines;
    ``pseudo_labels`` are compared with the hidden truth by the loop, which alone knows it.
    """

    losses: Mapping[str, Tensor]
    weights: Mapping[str, float] = field(default_factory=dict)  # 1 where not named
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    pseudo_labels: Mapping[str, PseudoLabels] = field(default_factory=dict)

    @property
    def total(self) -> Tensor:
        terms = [self.weights.get(name, 1.0) * loss for name, loss in self.losses.items()]
        return torch.stack(terms).sum()


@dataclass(frozen=True)
class Task:
    """What a method may know of the problem when it is built."""

    class_names: tuple[str, ...]
    embeddings: Tensor  # (K, d) float32, L2-normalised rows: M of the paper
    groups: Tensor  # (K,) int64, group of each class, 0..Q-1
    labelled_counts: Tensor  # (K,) int64, labelled images of each class
    pool_size: int  # unlabelled images
    num_features: int = 0  # F, of the backbone; for methods with trainable parts of their own

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def num_groups(self) -> int:
        return int(self.groups.max()) + 1
