"""VAT: Virtual Adversarial Training (Miyato et al. 2018).

Shapes: B labelled images, U unlabelled images, C channels, H and W pixels, K classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat
from torch import Tensor

from semco.config import MethodConfig
from semco.losses import cross_entropy, entropy, kl_divergence
from semco.methods.base import Forward, Method
from semco.pseudo_labels import soft_pseudo_labels
from semco.types import Batch, Progress, StepResult, ViewCounts

# Number of values of the images for which the paper gives lengths.
VALUES = 3 * 32 * 32


class VATConfig(MethodConfig):
    name: str = "vat"
    lambda_u: float = Field(default=1.0, ge=0)
    """Weight of the local distributional smoothness."""
    epsilon: PositiveFloat = 8.0
    """Length of the adversarial perturbation for images of 3 x 32 x 32 values; other sizes are scaled in proportion
    (augmented CIFAR-10: 8, augmented SVHN: 3.5)."""
    xi: PositiveFloat = 1.0
    """Length of the finite difference of the power iteration."""
    iterations: int = Field(default=1, ge=1)
    """Number of power iterations."""
    lambda_entropy: float = Field(default=0.0, ge=0)
    """Weight of the entropy of predictions on unlabelled images; 1 is the paper's VAT+EntMin."""


class VAT(Method[VATConfig]):
    """Predictions stay the same under the small perturbation that would change them most."""

    name = "vat"
    title = "VAT (Miyato et al. 2018)"
    Config = VATConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1)
    changes_images = True

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        config, images = self.config, batch.unlabelled.weak[0].detach()
        # A separate pass, as for the perturbed images; otherwise normalisation alone would tell them apart.
        weak = (forward(weak=images) if config.lambda_entropy else forward(no_grad={"weak": images}))["weak"].logits
        clean = weak.detach()

        def predict(perturbed: Tensor) -> Tensor:
            return forward.without_statistics(perturbed=perturbed)["perturbed"].logits

        start = random_directions(images, progress.generator)
        direction = adversarial_direction(images, clean, predict, start, config.xi, config.iterations)
        smoothness = kl_divergence(predict(images + self._length(images) * direction), clean)  # (U,), Eq. 5
        labelled = forward(labelled=batch.labelled.weak[0])["labelled"].logits
        losses = {"supervised": cross_entropy(labelled, batch.class_ids).mean(), "smoothness": smoothness.mean()}
        weights = {"smoothness": config.lambda_u}
        if config.lambda_entropy:
            losses["entropy"] = entropy(weak).mean()
            weights["entropy"] = config.lambda_entropy
        pseudo = soft_pseudo_labels(clean.softmax(dim=-1))
        return StepResult(losses, weights, pseudo_labels={"one_hot": pseudo})

    def _length(self, images: Tensor) -> float:
        """Return the length of the perturbation: normalised images have length sqrt(number of values)."""
        return self.config.epsilon * math.sqrt(images[0].numel() / VALUES)


def random_directions(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return a normal draw per pixel of (U, C, H, W), the start of the power iteration."""
    return torch.randn(images.shape, generator=generator).to(images)


def adversarial_direction(
    images: Tensor, clean: Tensor, predict: Callable[[Tensor], Tensor], start: Tensor, xi: float, iterations: int
) -> Tensor:
    """Return unit vectors (U, C, H, W) along which KL(p(x) || p(x + r)) grows fastest from r = 0 (Alg. 1, Sec. 3.3).

    The gradient vanishes there, so the growth is given by the Hessian, whose leading eigenvector the power iteration
    approximates: the product of the Hessian with d is the gradient at xi d, divided by xi. ``clean`` are logits (U, K).
    """
    direction = unit(start)
    for _ in range(iterations):
        direction.requires_grad_()
        divergence = kl_divergence(predict(images + xi * direction), clean).sum()
        (gradient,) = torch.autograd.grad(divergence, direction)
        direction = unit(gradient)
    return direction


def unit(vectors: Tensor) -> Tensor:
    """Return (U, C, H, W) with each image divided by its length; 0 stays 0. Scaled first, as squares may underflow."""
    flat = vectors.flatten(1)
    smallest = torch.finfo(flat.dtype).tiny
    flat = flat / flat.abs().amax(dim=1, keepdim=True).clamp(min=smallest)
    return F.normalize(flat, dim=1).view_as(vectors)
