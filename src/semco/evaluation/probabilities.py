"""Class probabilities from the network's heads.

Shapes: N images, K classes, d embedding size. Inference as in the paper: the one-hot head answers by default;
the semantic head, or the mean of both softmaxes, on request.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semco.errors import UserError
from semco.pseudo_labels.semantic import class_probabilities
from semco.types import Outputs

Head = Literal["one_hot", "semantic", "average"]
HEADS: tuple[Head, ...] = ("one_hot", "semantic", "average")


@dataclass(frozen=True)
class Scorer:
    """How outputs become probabilities: which head, and what the semantic head is compared with."""

    head: Head = "one_hot"
    label_vectors: Tensor | None = None  # (K, d), L2-normalised rows: M of the paper
    scale: float | None = None  # s in softmax(s * cos(q, M))

    def __call__(self, outputs: Outputs) -> Tensor:
        """(N, K) probabilities of the chosen head."""
        if self.head == "one_hot":
            return outputs.logits.float().softmax(dim=1)
        semantic = self._semantic(outputs)
        if self.head == "semantic":
            return semantic
        return (outputs.logits.float().softmax(dim=1) + semantic) / 2

    def _semantic(self, outputs: Outputs) -> Tensor:
        if outputs.embedding is None or self.label_vectors is None or self.scale is None:
            raise UserError(f"head {self.head!r} needs a semantic head, which this model lacks; use head 'one_hot'.")
        matrix = self.label_vectors.to(outputs.embedding.device)
        return class_probabilities(outputs.embedding.float(), matrix, self.scale)


@torch.inference_mode()
def predict_probabilities(network: nn.Module, batches: Iterable[Tensor], scorer: Scorer) -> NDArray[np.float32]:
    """(N, K) probabilities for normalised images given in batches of any size; nothing is padded.

    The network is put into evaluation mode and given back in the mode it was in.
    """
    was_training = network.training
    network.eval()
    try:
        parts = [scorer(network(images)).cpu() for images in batches]
    finally:
        network.train(was_training)
    return _checked(torch.cat(parts) if parts else torch.empty(0, 0))


def _checked(joined: Tensor) -> NDArray[np.float32]:
    if not bool(joined.isfinite().all()):
        raise UserError("the model gives probabilities that are not finite numbers; its weights are damaged.")
    array: NDArray[np.float32] = joined.numpy().astype(np.float32, copy=False)
    return array
