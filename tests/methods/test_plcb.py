"""PLCB: its regularisers and its mixup by hand, soft labels from visit to visit, and the warm-up."""

from __future__ import annotations

import math

import pytest
import torch
from scripted import ScriptedForward, at, log_table, make_batch, make_task

from semco.data.mixing import beta_weights, permutation
from semco.methods.plcb import PLCB, PLCBConfig, class_divergence

LABELLED = log_table([[0.5, 0.5]])


def make(**fields: float) -> PLCB:
    return PLCB(PLCBConfig(**fields), make_task(2, pool=5)).double()


def test_class_divergence_by_hand() -> None:
    """Mean predictions (.6, .4): .5 log(.5 / .6) + .5 log(.5 / .4); 0 when both classes are as frequent."""
    expected = 0.5 * math.log(5 / 6) + 0.5 * math.log(5 / 4)
    assert float(class_divergence(log_table([[0.9, 0.1], [0.3, 0.7]]), at(0))) == pytest.approx(expected)
    assert float(class_divergence(log_table([[0.9, 0.1], [0.1, 0.9]]), at(0))) == pytest.approx(0.0, abs=1e-12)


def test_without_mixing_by_hand() -> None:
    method = make(alpha=0.0)
    method.relabel(torch.tensor([1, 3]), torch.tensor([[0.8, 0.2], [0.4, 0.6]], dtype=torch.float64))
    now = log_table([[0.9, 0.1], [0.3, 0.7]])
    result = method.compute(make_batch([0], LABELLED, [now], index=[3, 1]), ScriptedForward(), at(50))
    # Labels: (1, 0), then the predictions on images 3 and 1; predictions (.5, .5), (.9, .1), (.3, .7).
    terms = [
        -math.log(0.5),
        -0.4 * math.log(0.9) - 0.6 * math.log(0.1),
        -0.8 * math.log(0.3) - 0.2 * math.log(0.7),
    ]
    assert float(result.losses["mixup"]) == pytest.approx(sum(terms) / 3)
    mean = 1.7 / 3
    divergence = 0.5 * math.log(0.5 / mean) + 0.5 * math.log(0.5 / (1 - mean))
    assert float(result.losses["all_classes"]) == pytest.approx(divergence)
    entropies = [-p * math.log(p) - (1 - p) * math.log(1 - p) for p in (0.5, 0.9, 0.3)]
    assert float(result.losses["entropy"]) == pytest.approx(sum(entropies) / 3)
    assert float(result.total) == pytest.approx(sum(terms) / 3 + 0.8 * divergence + 0.4 * sum(entropies) / 3)
    assert result.pseudo_labels["one_hot"].class_ids.tolist() == [1, 0]
    assert result.pseudo_labels["one_hot"].confidence.tolist() == pytest.approx([0.6, 0.8])
    # From the next visit on the labels are the current predictions.
    torch.testing.assert_close(method.soft_labels[[3, 1]], now.exp())


def test_a_first_visit_takes_the_current_prediction() -> None:
    method = make(alpha=0.0)
    result = method.compute(make_batch([0], LABELLED, [log_table([[0.9, 0.1]])], index=[2]), ScriptedForward(), at(50))
    expected = (-math.log(0.5) - 0.9 * math.log(0.9) - 0.1 * math.log(0.1)) / 2
    assert float(result.losses["mixup"]) == pytest.approx(expected)


def test_mixup_against_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(4, 2, generator=generator, dtype=torch.float64)
    x, u = (torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in (2, 3))
    result = make().compute(make_batch([1, 0], x, [u]), ScriptedForward(lambda v: v @ weight), at(50, seed=3))
    draws = at(50, seed=3).generator
    share = float(beta_weights(1, 4.0, x, draws))
    partner = permutation(5, x.device, draws).tolist()
    images = torch.cat([x, u])
    targets = [[0.0, 1.0], [1.0, 0.0], *(u @ weight).softmax(-1).tolist()]
    total = 0.0
    for i, j in enumerate(partner):
        log_p = ((share * images[i] + (1 - share) * images[j]) @ weight).log_softmax(-1).tolist()
        for part, source in ((share, i), (1 - share, j)):  # the loss is linear in the target: Eq. 6
            total -= part * sum(t * z for t, z in zip(targets[source], log_p, strict=True))
    assert float(result.losses["mixup"]) == pytest.approx(total / 5)


def test_warm_up_trains_labelled_images_alone_but_listens() -> None:
    method, forward = make(alpha=0.0, warm_up=0.5), ScriptedForward()
    example = make_batch([0], LABELLED, [log_table([[0.9, 0.1], [0.2, 0.8]])], index=[0, 4])
    result = method.compute(example, forward, at(49))
    assert len(forward.seen["mixed"]) == 1
    assert float(result.losses["mixup"]) == pytest.approx(math.log(2))
    assert method.soft_labels[4].tolist() == pytest.approx([0.2, 0.8])
    method.compute(example, forward, at(50))
    assert len(forward.seen["mixed"]) == 3


def test_rows_of_images_are_declared_and_weights_are_the_papers() -> None:
    method = make()
    assert set(method.per_image_buffers) == set(method.state_dict())
    config = method.config
    assert (config.lambda_a, config.lambda_h, config.alpha) == (0.8, 0.4, 4.0)
