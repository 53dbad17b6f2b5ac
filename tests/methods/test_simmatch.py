"""SimMatch: propagation of pseudo-labels by hand, the bank, and losses against a loop.

Shapes: N images, K classes, L labelled images.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from semco.methods.simmatch import propagate

Make = Callable[..., "object"]


def test_unfolding_and_aggregation_by_hand() -> None:
    p, q = torch.tensor([[0.8, 0.2]]), torch.tensor([[0.5, 0.3, 0.2]])
    classes, instances = propagate(p, q, torch.tensor([0, 1, 0]), 0.9)
    # Aggregated: .7 and .3. Unfolded: .4, .06, .16 over .62.
    torch.testing.assert_close(classes, torch.tensor([[0.9 * 0.8 + 0.07, 0.9 * 0.2 + 0.03]]))
    torch.testing.assert_close(instances, torch.tensor([[0.4, 0.06, 0.16]]) / 0.62)


def test_images_not_seen_yet_are_left_out() -> None:
    p, q = torch.tensor([[0.8, 0.2]]), torch.tensor([[0.6, 0.4, 0.0]])
    classes, instances = propagate(p, q, torch.tensor([1, 0, -1]), 0.0)
    torch.testing.assert_close(classes, torch.tensor([[0.4, 0.6]]))
    torch.testing.assert_close(instances, torch.tensor([[0.12, 0.32, 0.0]]) / 0.44)


def test_the_bank_moves_and_remembers(bench: Make, batch: Make) -> None:
    b = bench("simmatch", bank_momentum=0.6)
    example = batch(b.method.views, 7)
    b.step(example)
    index = example.labelled_index
    embeddings = b.method.project(b.network(example.labelled.weak[0]).features).detach()
    unit = F.normalize(embeddings, dim=-1)
    torch.testing.assert_close(b.method.bank[index], 0.4 * unit, rtol=1e-4, atol=1e-5)  # rows start at zero
    assert b.method.bank_labels[index].tolist() == example.class_ids.tolist()
    assert int((b.method.bank_labels >= 0).sum()) == 4
    other = batch(b.method.views, 7, seed=3)
    again = replace(example, labelled=other.labelled)
    b.step(again)
    new = F.normalize(b.method.project(b.network(other.labelled.weak[0]).features).detach(), dim=-1)
    torch.testing.assert_close(b.method.bank[index], 0.6 * unit + 0.4 * new, rtol=1e-3, atol=1e-4)


def test_an_image_twice_in_a_step_counts_by_its_mean(bench: Make, batch: Make) -> None:
    b = bench("simmatch", bank_momentum=0.0)
    example = batch(b.method.views, 7)
    twice = replace(example, labelled_index=torch.tensor([5, 5, 6, 7]), class_ids=torch.tensor([1, 1, 2, 3]))
    b.step(twice)
    unit = F.normalize(b.method.project(b.network(example.labelled.weak[0]).features).detach(), dim=-1)
    torch.testing.assert_close(b.method.bank[5], F.normalize(unit[0] + unit[1], dim=0), rtol=1e-4, atol=1e-5)


def test_losses_against_a_loop(bench: Make, batch: Make) -> None:
    b = bench("simmatch", tau=0.2, temperature=0.3, smoothing=0.7, lambda_u=0.5, lambda_in=2.0, warm_up=0.0)
    b.step(batch(b.method.views, 7, seed=9))
    example = batch(b.method.views, 7)
    before = b.method.alignment.align(b.network(example.unlabelled.weak[0]).logits.softmax(dim=-1)).tolist()
    result = b.step(example)
    strong_logits = b.network(example.unlabelled.strong[0]).logits.log_softmax(dim=-1).tolist()
    views = (example.unlabelled.weak[0], example.unlabelled.strong[0])
    weak, strong = (F.normalize(b.method.project(b.network(v).features), dim=-1).tolist() for v in views)
    labels = b.method.bank_labels.tolist()
    seen = [i for i, y in enumerate(labels) if y >= 0]
    rows = F.normalize(b.method.bank, dim=-1).tolist()
    unlabelled = instances = 0.0
    retained = 0
    for p, z_weak, z_strong, log_p in zip(before, weak, strong, strong_logits, strict=True):
        near, far = (
            [math.exp(sum(a * c for a, c in zip(z, rows[i], strict=True)) / 0.3) for i in seen]
            for z in (z_weak, z_strong)
        )
        q = [v / sum(near) for v in near]
        unfolded = [v * p[labels[i]] for v, i in zip(q, seen, strict=True)]
        instances -= sum(u / sum(unfolded) * math.log(v / sum(far)) for u, v in zip(unfolded, far, strict=True))
        target = [0.7 * p[k] + 0.3 * sum(v for v, i in zip(q, seen, strict=True) if labels[i] == k) for k in range(7)]
        if max(target) >= 0.2:
            retained += 1
            unlabelled -= sum(t * z for t, z in zip(target, log_p, strict=True))
    assert 4 < len(seen) <= 8
    assert retained > 0
    assert float(result.losses["unlabelled"].detach()) == pytest.approx(unlabelled / 12, rel=1e-3)
    assert float(result.losses["instances"].detach()) == pytest.approx(instances / 12, rel=1e-3)
    assert float(result.metrics["mask_one_hot"]) == pytest.approx(retained / 12)
    total = float(result.losses["supervised"].detach()) + 0.5 * unlabelled / 12 + 2 * instances / 12
    assert float(result.total.detach()) == pytest.approx(total, rel=1e-3)


def test_instances_have_no_say_at_first(bench: Make, batch: Make) -> None:
    b = bench("simmatch", tau=0.0, warm_up=0.1)
    example = batch(b.method.views, 7)
    b.step(example)
    aligned = b.method.alignment.align(b.network(example.unlabelled.weak[0]).logits.softmax(dim=-1))
    early, late = (b.copy().step(example, step) for step in (9, 10))
    assert (early.weights["instances"], late.weights["instances"]) == (0.0, 1.0)
    # The target is then what the head says, after alignment.
    torch.testing.assert_close(early.pseudo_labels["one_hot"].confidence, aligned.amax(dim=-1).detach())
    assert not torch.allclose(late.pseudo_labels["one_hot"].confidence, aligned.amax(dim=-1).detach())
