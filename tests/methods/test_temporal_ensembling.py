"""Temporal Ensembling: the bias correction, the first visit, and the target against a weighted mean."""

from __future__ import annotations

import math

import pytest
import torch
from scripted import ScriptedForward, at, log_table, make_batch, make_task

from semco.methods.temporal_ensembling import TemporalEnsembling, TemporalEnsemblingConfig

LABELLED = log_table([[0.5, 0.5]])


def make(**fields: float) -> TemporalEnsembling:
    return TemporalEnsembling(TemporalEnsemblingConfig(**fields), make_task(2, labelled=1, pool=5)).double()


def test_bias_correction_by_hand() -> None:
    """After one visit Z = .4 z, which 1 - .6 makes z again; after two it is (.24 z1 + .4 z2) / .64."""
    method, index = make(), torch.tensor([3])
    method.remember(index, torch.tensor([[0.8, 0.2]], dtype=torch.float64))
    torch.testing.assert_close(method.ensemble[3], torch.tensor([0.32, 0.08], dtype=torch.float64))
    assert method.targets(index)[0].flatten().tolist() == pytest.approx([0.8, 0.2])
    method.remember(index, torch.tensor([[0.4, 0.6]], dtype=torch.float64))
    assert method.targets(index)[0].flatten().tolist() == pytest.approx([0.352 / 0.64, 0.288 / 0.64])
    assert method.visits.tolist() == [0, 0, 0, 2, 0]


@pytest.mark.parametrize("momentum", [0.0, 0.6, 0.99])
def test_target_is_the_weighted_mean_of_past_predictions(momentum: float) -> None:
    method, index = make(momentum=momentum), torch.tensor([1])
    past = torch.rand(7, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for z in past:
        method.remember(index, z[None])
    weights = [momentum ** (6 - i) for i in range(7)]
    expected = [sum(w * float(z[k]) for w, z in zip(weights, past, strict=True)) / sum(weights) for k in range(2)]
    assert method.targets(index)[0].flatten().tolist() == pytest.approx(expected)


def test_steps_by_hand() -> None:
    method = make()
    first = make_batch([0], LABELLED, [log_table([[0.9, 0.1], [0.3, 0.7]])], index=[4, 2])
    second = make_batch([0], LABELLED, [log_table([[0.5, 0.5], [0.6, 0.4]])], index=[2, 0])
    result = method.compute(first, ScriptedForward(), at(0))
    assert float(result.losses["consistency"]) == 0.0  # there is no earlier prediction on these images
    assert result.pseudo_labels["one_hot"].weights.tolist() == [0, 0]
    result = method.compute(second, ScriptedForward(), at(50))
    # The prediction on image 2 was .3 and is .5 now; image 0 is new; the mean is over both.
    assert float(result.losses["consistency"]) == pytest.approx(0.2**2 / 2)
    assert float(result.losses["supervised"]) == pytest.approx(math.log(2))
    assert result.weights["consistency"] == pytest.approx(30)
    assert result.pseudo_labels["one_hot"].class_ids[0].item() == 1
    assert result.pseudo_labels["one_hot"].weights.tolist() == [1, 0]
    assert float(result.metrics["known"]) == 0.5


def test_no_gradient_into_the_past() -> None:
    method, index = make(), [1]
    logits = log_table([[0.9, 0.1]]).requires_grad_()
    method.compute(make_batch([0], LABELLED, [logits], index=index), ScriptedForward(), at(0))
    assert not method.ensemble.requires_grad
    later = log_table([[0.4, 0.6]]).requires_grad_()
    method.compute(make_batch([0], LABELLED, [later], index=index), ScriptedForward(), at(1)).total.backward()
    assert logits.grad is None
    assert later.grad is not None


def test_rows_of_images_are_declared() -> None:
    method = make()
    assert set(method.per_image_buffers) == set(method.state_dict())
    assert all(len(buffer) == 5 for buffer in method.state_dict().values())


def test_defaults_are_the_papers() -> None:
    config = TemporalEnsemblingConfig()
    assert (config.lambda_u, config.momentum, config.ramp_up) == (30.0, 0.6, 80 / 300)
