"""A transform of frozen features; a fitted head reads its outputs.

Shapes: N images, V views, F features, D axes.
"""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from semco.config import Section


class TransformShape(Section):
    """What is needed to build a `FeatureTransform` before its values are loaded."""

    axes: Annotated[int, Field(ge=1, le=2**20)]
    """Number of principal axes D."""
    has_close_up: bool
    """Whether the model predicts from a close-up of each photo beside the plain view."""


class FeatureTransform(nn.Module):
    """(N, V, F) -> (N, D): roots of the features, their mean over the views, principal axes; rows of length 1."""

    mean: Tensor  # (F,) of the roots
    axes: Tensor  # (F, D)

    def __init__(self, mean: Tensor, axes: Tensor, *, has_close_up: bool) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("axes", axes)
        self.has_close_up = has_close_up

    @classmethod
    def empty(cls, features: int, shape: TransformShape) -> FeatureTransform:
        """Return a transform of this shape, whose values are loaded later."""
        return cls(torch.zeros(features), torch.zeros(features, shape.axes), has_close_up=shape.has_close_up)

    @property
    def shape(self) -> TransformShape:
        return TransformShape(axes=self.axes.shape[1], has_close_up=self.has_close_up)

    def forward(self, views: Tensor) -> Tensor:
        return nn.functional.normalize((root(views) - self.mean) @ self.axes, dim=-1)


def root(views: Tensor) -> Tensor:
    """Return the sums over the views of the signed square roots of features (N, V, F), as rows (N, F) of length 1.

    Without the roots, a few large features would dominate the cosine between two images.
    """
    return nn.functional.normalize((views.sign() * views.abs().sqrt()).sum(dim=1), dim=-1)
