"""A temperature that makes confidences honest, fitted to images whose labels were not learned from.

Shapes: N images, K classes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

# The temperatures that are tried; a calibrated head needs 1.
LOWEST, HIGHEST = 0.25, 4.0
# Images that speak for a temperature of 1, so that few labels do not change much.
PRIOR = 10.0


def fit_temperature(logits: Tensor, class_ids: Tensor) -> float:
    """Return the number by which logits (N, K) are to be divided so that their log-likelihood is highest (Guo et al.
    2017), with a penalty of `PRIOR` (log T)² / 2 for departing from 1."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        scaled = logits.double() / float(np.exp(log_temperature))
        errors = torch.nn.functional.cross_entropy(scaled, class_ids, reduction="sum")
        return float(errors) + PRIOR * log_temperature**2 / 2

    bounds = float(np.log(LOWEST)), float(np.log(HIGHEST))
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))
