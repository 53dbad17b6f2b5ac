"""MixMatch: plain terms without mixing and sharpening, a slow version with both, and what is mixed."""

from __future__ import annotations

import math

import pytest
import torch
from scripted import ScriptedForward, at, log_table, make_batch, make_task, softmax

from semco.data.mixing import mixmatch_mixup
from semco.methods.mixmatch import MixMatch, MixMatchConfig

LABELLED = log_table([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
VIEWS = [log_table([[0.6, 0.2, 0.2], [0.1, 0.3, 0.6]]), log_table([[0.2, 0.4, 0.4], [0.3, 0.3, 0.4]])]


@pytest.mark.parametrize("alpha", [0.0, 1e-6])
def test_without_mixing_and_sharpening_by_hand(alpha: float) -> None:
    """alpha -> 0 and T -> 1: cross-entropy of the labels, squared error of each view to the mean of both."""
    method = MixMatch(MixMatchConfig(alpha=alpha, temperature=1.0, ramp_up_steps=40), make_task(3))
    result = method.compute(make_batch([0, 2], LABELLED, VIEWS), ScriptedForward(), at(50))
    assert float(result.losses["supervised"]) == pytest.approx((math.log(2) - math.log(0.8)) / 2)
    # The guesses are (.4, .3, .3) and (.2, .3, .5); each view is (.2, .1, .1) and (.1, 0, .1) away from them.
    assert float(result.losses["unlabelled"]) == pytest.approx((0.06 + 0.02) / 2 / 3)
    assert result.weights["unlabelled"] == 75.0
    assert result.pseudo_labels["one_hot"].class_ids.tolist() == [0, 2]
    assert result.pseudo_labels["one_hot"].confidence.tolist() == pytest.approx([0.4, 0.5])


def test_sharpened_guess_by_hand() -> None:
    method = MixMatch(MixMatchConfig(alpha=0.0), make_task(3))
    pseudo = method.compute(make_batch([0, 2], LABELLED, VIEWS), ScriptedForward(), at(50)).pseudo_labels["one_hot"]
    assert pseudo.confidence.tolist() == pytest.approx([0.16 / 0.34, 0.25 / 0.38])


def test_against_a_slow_version() -> None:
    """Images that are not logits, so that mixing inputs and mixing outputs differ."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    x, u1, u2 = (torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in (2, 3, 3))
    forward = ScriptedForward(lambda v: v @ weight)
    method = MixMatch(MixMatchConfig(), make_task(3))
    result = method.compute(make_batch([1, 0], x, [u1, u2]), forward, at(50, seed=5))

    def predict(image: list[float]) -> list[float]:
        return softmax([sum(a * float(weight[i, k]) for i, a in enumerate(image)) for k in range(3)])

    guesses = []
    for a, b in zip(u1.tolist(), u2.tolist(), strict=True):
        mean = [(p + q) / 2 for p, q in zip(predict(a), predict(b), strict=True)]
        guesses.append([p**2 / sum(q**2 for q in mean) for p in mean])
    images = [*x.tolist(), *u1.tolist(), *u2.tolist()]
    targets = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], *guesses, *guesses]
    mixed, mixed_targets = mixmatch_mixup(
        torch.tensor(images, dtype=torch.float64),
        torch.tensor(targets, dtype=torch.float64),
        0.75,
        at(50, seed=5).generator,
    )
    supervised, squares = [], []
    for i, (image, target) in enumerate(zip(mixed.tolist(), mixed_targets.tolist(), strict=True)):
        p = predict(image)
        if i < 2:
            supervised.append(-sum(t * math.log(q) for t, q in zip(target, p, strict=True)))
        else:
            squares.append(sum((t - q) ** 2 for t, q in zip(target, p, strict=True)) / 3)
    assert float(result.losses["supervised"]) == pytest.approx(sum(supervised) / 2)
    assert float(result.losses["unlabelled"]) == pytest.approx(sum(squares) / 6)


def test_ramp_and_number_of_guesses() -> None:
    method = MixMatch(MixMatchConfig(guesses=3, ramp_up_steps=50, lambda_u=10.0), make_task(3))
    assert method.views.unlabelled_weak == 3
    result = method.compute(make_batch([0, 2], LABELLED, [*VIEWS, VIEWS[0]]), ScriptedForward(), at(20))
    assert result.weights["unlabelled"] == pytest.approx(4.0)


def test_defaults_are_the_papers() -> None:
    config = MixMatchConfig()
    assert (config.temperature, config.guesses, config.alpha, config.lambda_u) == (0.5, 2, 0.75, 75.0)
    assert config.ramp_up_steps == 16_384
