"""UDA: annealing schedules, masks and losses against closed forms and a plain loop."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scripted import at

from semco.methods.uda import annealed_cross_entropy, signal_limit

Make = Callable[..., "object"]


@pytest.mark.parametrize(
    ("schedule", "fraction", "alpha"),
    [
        ("linear", 0.0, 0.0),
        ("linear", 0.3, 0.3),
        ("linear", 1.0, 1.0),
        ("log", 0.0, 0.0),
        ("log", 0.2, 1 - 1 / math.e),
        ("log", 1.0, 1 - math.exp(-5)),
        ("exp", 0.0, math.exp(-5)),
        ("exp", 0.8, 1 / math.e),
        ("exp", 1.0, 1.0),
        ("none", 0.0, 1.0),
    ],
)
def test_annealing_schedules(schedule: str, fraction: float, alpha: float) -> None:
    assert signal_limit(schedule, fraction, 10) == pytest.approx(0.1 + 0.9 * alpha)  # type: ignore[arg-type]


def test_known_images_are_left_out() -> None:
    # p(y) = .9, .5, .2; a limit of .5 keeps the last two: (log 2 + log 5) / 2.
    logits = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.8, 0.2]]).log().requires_grad_()
    loss, kept = annealed_cross_entropy(logits, torch.tensor([0, 1, 1]), 0.5, at(0))
    assert kept.tolist() == [0.0, 1.0, 1.0]
    assert float(loss.detach()) == pytest.approx((math.log(2) + math.log(5)) / 2, rel=1e-5)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad[0].tolist() == [0.0, 0.0]
    nothing, kept = annealed_cross_entropy(logits, torch.tensor([0, 0, 0]), 0.1, at(0))
    assert float(nothing.detach()) == 0
    assert kept.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("tau", "temperature"), [(0.0, 0.4), (0.25, 0.4), (0.25, 1.0), (0.99, 0.4)])
def test_losses_against_a_loop(tau: float, temperature: float, bench: Make, batch: Make) -> None:
    b = bench("uda", tau=tau, temperature=temperature, lambda_u=0.5, annealing="none")
    example = batch(b.method.views, 7)
    result = b.step(example)
    weak, strong = (b.network(view[0]).logits.tolist() for view in (example.unlabelled.weak, example.unlabelled.strong))
    total, retained = 0.0, 0
    for z_weak, z_strong in zip(weak, strong, strict=True):
        p = [math.exp(z) for z in z_weak]
        if max(p) / sum(p) < tau:
            continue
        retained += 1
        sharp = [math.exp(z / temperature) for z in z_weak]
        norm = math.log(sum(math.exp(z) for z in z_strong))
        total -= sum(s / sum(sharp) * (z - norm) for s, z in zip(sharp, z_strong, strict=True))
    assert float(result.losses["unlabelled"].detach()) == pytest.approx(total / 12, rel=1e-4)
    assert float(result.metrics["mask_one_hot"]) == pytest.approx(retained / 12)
    assert 0 < retained < 12 or tau in (0.0, 0.99)
    expected = result.losses["supervised"] + 0.5 * result.losses["unlabelled"]
    assert float(result.total.detach()) == pytest.approx(float(expected.detach()))


def test_annealing_follows_the_run(bench: Make, batch: Make) -> None:
    """At the start only images worse than chance are let in, at the end all."""
    b = bench("uda")
    example = batch(b.method.views, 7)
    logits = b.network(example.labelled.weak[0]).logits
    correct = logits.softmax(dim=-1)[torch.arange(4), example.class_ids]
    kept = b.step(example, step=0).metrics["mask_labelled"]
    assert float(kept) == float((correct <= 1 / 7).float().mean()) < 1
    assert float(b.step(example, step=99).metrics["mask_labelled"]) == 1
