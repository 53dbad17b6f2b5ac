"""Probabilities of each head, computed by hand and in batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from semco.errors import UserError
from semco.evaluation.probabilities import Scorer, predict_probabilities
from semco.types import Outputs

M = torch.eye(2)


def outputs() -> Outputs:
    """One image: the logits give 3:1 for class 0; the embedding (0, 7) points at class 1."""
    return Outputs(torch.zeros(1, 3), torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([[0.0, 7.0]]))


def test_one_hot_is_the_softmax_of_the_logits() -> None:
    np.testing.assert_allclose(Scorer("one_hot")(outputs()), [[0.75, 0.25]], rtol=1e-6)


def test_semantic_is_a_scaled_softmax_of_cosines() -> None:
    # cosines 0 and 1, scale ln 4 -> 1 : 4
    scorer = Scorer("semantic", M, scale=math.log(4.0))
    np.testing.assert_allclose(scorer(outputs()), [[0.2, 0.8]], rtol=1e-6)


def test_average_is_the_mean_of_the_two() -> None:
    scorer = Scorer("average", M, scale=math.log(4.0))
    np.testing.assert_allclose(scorer(outputs()), [[0.475, 0.525]], rtol=1e-6)


@pytest.mark.parametrize("head", ["semantic", "average"])
def test_a_model_without_semantic_head_is_refused(head: str) -> None:
    bare = Outputs(torch.zeros(1, 3), torch.zeros(1, 2))
    with pytest.raises(UserError, match=f"head '{head}' needs a model with a semantic head"):
        Scorer(head, M, 1.0)(bare)  # type: ignore[arg-type]


class ModeDependent(nn.Module):
    """Predicts differently in training mode, and stores the sizes of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def forward(self, images: Tensor) -> Outputs:
        self.sizes.append(len(images))
        flat = images.flatten(1)
        return Outputs(flat, -flat if self.training else flat)


def test_batches_are_joined_unpadded_in_evaluation_mode() -> None:
    network = ModeDependent().train()
    images = torch.randn(7, 3, 1, 1, generator=torch.Generator().manual_seed(0))
    joined = predict_probabilities(network, images.split(3), Scorer())
    assert network.sizes == [3, 3, 1]
    assert network.training
    np.testing.assert_allclose(joined, images.flatten(1).softmax(dim=1), rtol=1e-6)


def test_damaged_weights_are_named() -> None:
    with pytest.raises(UserError, match="not finite"):
        predict_probabilities(ModeDependent(), [torch.full((2, 3, 1, 1), math.nan)], Scorer())
