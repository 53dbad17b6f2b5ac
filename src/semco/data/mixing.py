"""Mixing images and targets: mixup and CowMask's masks. No gradient flows through mixed images.

Shapes: N images, C channels, H and W pixels, K classes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def beta_weights(count: int, alpha: float, like: Tensor, generator: torch.Generator) -> Tensor:
    """Return ``count`` draws of Beta(alpha, alpha), with type and device of ``like``; 1 for alpha = 0."""
    if alpha == 0:
        return like.new_ones(count)
    # NumPy's draws are right even for a very small alpha, where a ratio of gamma variables would be 0 / 0.
    seed = int(torch.randint(2**62, (), generator=generator))
    return torch.from_numpy(np.random.default_rng(seed).beta(alpha, alpha, count)).to(like)


def permutation(count: int, device: torch.device, generator: torch.Generator) -> Tensor:
    """Return the numbers 0..count-1 in random order."""
    return torch.randperm(count, generator=generator).to(device)


@torch.no_grad()
def mix(first: Tensor, second: Tensor, weights: Tensor) -> Tensor:
    """Return w first + (1 - w) second, for (N, ...) and weights (N,), (1,), or (N, 1, H, W) per pixel."""
    weights = weights.reshape(*weights.shape, *[1] * (first.ndim - weights.ndim))
    return weights * first + (1.0 - weights) * second


def mixmatch_mixup(images: Tensor, targets: Tensor, alpha: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Mix each image with another of the batch (MixMatch, Eq. 8-11): (N, C, H, W), (N, K) -> the same shapes.

    lambda' = max(lambda, 1 - lambda), so that a mixed image stays closer to its own image than to its partner.
    """
    weights = beta_weights(len(images), alpha, images, generator)
    weights = torch.maximum(weights, 1.0 - weights)
    partners = permutation(len(images), images.device, generator)
    return mix(images, images[partners], weights), mix(targets, targets[partners], weights)


def cow_masks(
    images: Tensor,
    sigma_range: tuple[float, float],
    proportion_range: tuple[float, float],
    generator: torch.Generator,
) -> Tensor:
    """Return CowMask masks (N, 1, H, W) of 0 and 1 (French et al. 2020, Alg. 1): smoothed noise below a threshold.

    For each of the images (N, C, H, W) sigma in pixels is drawn log-uniformly, and the proportion p of ones
    uniformly; the threshold is the p-quantile of a normal distribution with the smoothed noise's mean and deviation.
    """
    count, _, height, width = images.shape
    low, high = (math.log(sigma) for sigma in sigma_range)
    # Drawn on the host, where the generator is, and smoothed on the device of the images.
    draws = torch.rand(2, count, 1, 1, generator=generator).to(images.device)
    noise = torch.randn(count, height, width, generator=generator).to(images.device)
    sigmas = (low + (high - low) * draws[0]).exp()
    proportions = proportion_range[0] + (proportion_range[1] - proportion_range[0]) * draws[1]
    smooth = gaussian_matrix(height, sigmas) @ noise @ gaussian_matrix(width, sigmas)
    deviation, mean = torch.std_mean(smooth, dim=(1, 2), correction=0, keepdim=True)
    threshold = mean + torch.special.ndtri(proportions) * deviation
    below: Tensor = smooth <= threshold
    return below[:, None].to(images)


def gaussian_matrix(size: int, sigmas: Tensor) -> Tensor:
    """Return matrices (N, size, size) that smooth one side of an image, zero beyond its border, sigmas (N, 1, 1)."""
    place = torch.arange(size, dtype=sigmas.dtype, device=sigmas.device)
    distance = (place[:, None] - place[None, :]) / sigmas
    return (-0.5 * distance.square()).exp() / (sigmas * math.sqrt(2.0 * math.pi))
