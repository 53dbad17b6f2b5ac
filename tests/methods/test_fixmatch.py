"""FixMatch and the supervised baseline on numbers worked out by a plain loop."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

Make = Callable[..., "object"]


def slow_cross_entropy(logits: list[float], label: int) -> float:
    return math.log(sum(math.exp(z) for z in logits)) - logits[label]


@pytest.mark.parametrize("tau", [0.0, 0.3, 1.0])
def test_losses_against_a_loop(tau: float, bench: Make, batch: Make) -> None:
    b = bench("fixmatch", tau=tau, lambda_u=0.5)
    example = batch(b.method.views, 7)
    result = b.step(example)
    labelled, strong, weak = (
        b.network(view).logits.tolist()
        for view in (example.labelled.weak[0], example.unlabelled.strong[0], example.unlabelled.weak[0])
    )
    supervised = [slow_cross_entropy(z, y) for z, y in zip(labelled, example.class_ids.tolist(), strict=True)]
    unlabelled = []
    for z_weak, z_strong in zip(weak, strong, strict=True):
        total = sum(math.exp(z) for z in z_weak)
        confidence = max(math.exp(z) / total for z in z_weak)
        label = z_weak.index(max(z_weak))
        unlabelled.append(slow_cross_entropy(z_strong, label) if confidence >= tau else 0.0)
    assert float(result.losses["supervised"].detach()) == pytest.approx(sum(supervised) / 4, rel=1e-4)
    assert float(result.losses["unlabelled"].detach()) == pytest.approx(sum(unlabelled) / 12, rel=1e-4)
    expected = sum(supervised) / 4 + 0.5 * sum(unlabelled) / 12
    assert float(result.total.detach()) == pytest.approx(expected, rel=1e-4)
    retained = sum(loss > 0 for loss in unlabelled) / 12
    assert float(result.metrics["mask_one_hot"]) == pytest.approx(retained)


def test_supervised_is_the_first_term_of_fixmatch(bench: Make, batch: Make) -> None:
    plain, fixmatch = bench("supervised"), bench("fixmatch")
    example = batch(fixmatch.method.views, 7)
    one, other = plain.step(example), fixmatch.step(example)
    assert torch.equal(one.losses["supervised"], other.losses["supervised"])
    assert one.losses.keys() == {"supervised"}
