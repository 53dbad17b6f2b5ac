"""Class probabilities from the network's heads.

Shapes: N images, K classes, d embedding size. The one-hot head predicts by default, as in the paper; the semantic head,
or the mean of both heads' probabilities, can be chosen instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semco.errors import NotFiniteError, UserError
from semco.pseudo_labels.semantic import class_probabilities
from semco.training.allocator import with_reused_memory
from semco.types import Outputs

Head = Literal["one_hot", "semantic", "average"]
HEADS: tuple[Head, ...] = ("one_hot", "semantic", "average")


@dataclass(frozen=True)
class Scorer:
    """Computes class probabilities from outputs: with which head, and with which label vectors."""

    head: Head = "one_hot"
    label_vectors: Tensor | None = None  # (K, d), L2-normalised rows: M of the paper
    scale: float | None = None  # s in softmax(s * cos(q, M))

    def __call__(self, outputs: Outputs) -> Tensor:
        """Return the probabilities (N, K) of the chosen head."""
        if self.head == "one_hot":
            return outputs.logits.float().softmax(dim=1)
        semantic = self._semantic_probabilities(outputs)
        if self.head == "semantic":
            return semantic
        return (outputs.logits.float().softmax(dim=1) + semantic) / 2

    def _semantic_probabilities(self, outputs: Outputs) -> Tensor:
        if outputs.embedding is None or self.label_vectors is None or self.scale is None:
            raise UserError(f"head {self.head!r} needs a model with a semantic head; use head 'one_hot'.")
        matrix = self.label_vectors.to(outputs.embedding.device)
        return class_probabilities(outputs.embedding.float(), matrix, self.scale)


@dataclass(frozen=True)
class HeadScorers:
    """Computes the probabilities of several heads from the same outputs."""

    heads: tuple[Head, ...]
    label_vectors: Tensor | None = None
    scale: float | None = None

    def __call__(self, outputs: Outputs) -> Tensor:
        """Return the probabilities of the heads side by side: (N, heads * K)."""
        return torch.cat([Scorer(head, self.label_vectors, self.scale)(outputs) for head in self.heads], dim=1)

    def split(self, scores: NDArray[np.float32]) -> dict[Head, NDArray[np.float32]]:
        """Return the probabilities (N, K) of each head."""
        return dict(zip(self.heads, np.split(scores, len(self.heads), axis=1), strict=True))


def heads_of(scale: float | None) -> tuple[Head, ...]:
    """Return the heads that can predict; a model without a semantic head has no scale."""
    return ("one_hot",) if scale is None else HEADS


@torch.inference_mode()
def predict_probabilities(
    network: nn.Module, batches: Iterable[Tensor], scorer: Callable[[Outputs], Tensor]
) -> NDArray[np.float32]:
    """Return the probabilities (N, K) of normalised images, given in batches of any size.

    The network runs in evaluation mode and is returned to the mode it was in.
    """
    was_training = network.training
    network.eval()
    try:
        scores = (scorer(network(images)).cpu() for images in batches)
        parts = list(with_reused_memory(scores, _device_of(network)))
    finally:
        network.train(was_training)
    return finite_array(torch.cat(parts) if parts else torch.empty(0, 0))


def _device_of(network: nn.Module) -> torch.device:
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))


def finite_array(scores: Tensor) -> NDArray[np.float32]:
    """Return probabilities as an array; numbers that are not finite are a `NotFiniteError`."""
    if not bool(scores.isfinite().all()):
        raise NotFiniteError("the model predicts probabilities that are not finite numbers; its weights are damaged.")
    array: NDArray[np.float32] = scores.numpy().astype(np.float32, copy=False)
    return array
