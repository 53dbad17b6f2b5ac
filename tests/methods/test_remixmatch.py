"""ReMixMatch against a slow version, and its rotations."""

from __future__ import annotations

import math

import pytest
import torch
from scripted import ScriptedForward, at, make_batch, make_task, softmax

from semco.data.mixing import mixmatch_mixup
from semco.methods.remixmatch import ReMixMatch, ReMixMatchConfig, rotate_randomly
from semco.types import Task

GENERATOR = torch.Generator().manual_seed(0)
CLASSES, TURNS = (torch.randn(4, k, generator=GENERATOR, dtype=torch.float64) for k in (3, 4))
COUNTS = torch.tensor([4, 2, 2])


def images(count: int) -> torch.Tensor:
    return torch.randn(count, 1, 2, 2, generator=GENERATOR, dtype=torch.float64)


def cross_entropy(target: list[float], image: torch.Tensor, weight: torch.Tensor) -> float:
    p = softmax((image.flatten() @ weight).tolist())
    return -sum(t * math.log(q) for t, q in zip(target, p, strict=True))


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize("alpha", [0.0, 0.75])
def test_against_a_slow_version(alpha: float) -> None:
    task = Task(tuple("abc"), torch.eye(3), torch.arange(3), COUNTS, 10)
    method = ReMixMatch(ReMixMatchConfig(alpha=alpha, strong_views=2, ramp_up_steps=20), task).double()
    assert (method.views.labelled_strong, method.views.unlabelled_strong) == (1, 2)
    x, weak, strong = images(2), images(3), [images(3), images(3)]
    forward = ScriptedForward(lambda v: v.flatten(1) @ CLASSES, rotation=lambda v: v.flatten(1) @ TURNS)
    example = make_batch([2, 0], x, [weak], strong, labelled_strong=[x])
    result = method.compute(example, forward, at(10, seed=4))

    guesses = []
    for image in weak:
        q = softmax((image.flatten() @ CLASSES).tolist())
        q = [p * wanted / (1 / 3) for p, wanted in zip(q, (0.5, 0.25, 0.25), strict=True)]  # no history: uniform
        q = [(p / sum(q)) ** 2 for p in q]
        guesses.append([p / sum(q) for p in q])
    targets = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], *guesses, *guesses, *guesses]
    draws = at(10, seed=4).generator
    mixed, mixed_targets = mixmatch_mixup(
        torch.cat([x, *strong, weak]), torch.tensor(targets, dtype=torch.float64), alpha, draws
    )
    rotated, turns = rotate_randomly(strong[0], draws)
    entropies = [cross_entropy(t, m, CLASSES) for t, m in zip(mixed_targets.tolist(), mixed, strict=True)]
    one_hot = torch.eye(4)[turns].tolist()
    expected = {
        "supervised": mean(entropies[:2]),
        "unlabelled": mean(entropies[2:]),
        "strong": mean([cross_entropy(q, s, CLASSES) for q, s in zip(guesses, strong[0], strict=True)]),
        "rotation": mean([cross_entropy(r, s, TURNS) for r, s in zip(one_hot, rotated, strict=True)]),
    }
    assert {name: float(loss) for name, loss in result.losses.items()} == pytest.approx(expected, rel=1e-4)
    assert result.weights == pytest.approx({"unlabelled": 0.75, "strong": 0.25, "rotation": 0.5})
    assert result.pseudo_labels["one_hot"].confidence.tolist() == pytest.approx([max(q) for q in guesses], rel=1e-4)
    torch.testing.assert_close(method.alignment.history[-1], (weak.flatten(1) @ CLASSES).softmax(-1).mean(0))


def test_rotations_are_what_they_say() -> None:
    square = torch.randn(40, 3, 5, 5, generator=GENERATOR)
    rotated, turns = rotate_randomly(square, torch.Generator().manual_seed(1))
    assert set(turns.tolist()) == {0, 1, 2, 3}
    for image, after, turn in zip(square, rotated, turns.tolist(), strict=True):
        # A quarter turn against the clock brings the last column to the top.
        expected = image
        for _ in range(turn):
            expected = expected.transpose(1, 2).flip(1)
        assert torch.equal(after, expected)


def test_only_half_turns_keep_the_shape_of_a_rectangle() -> None:
    wide = torch.randn(20, 3, 4, 6, generator=GENERATOR)
    rotated, turns = rotate_randomly(wide, torch.Generator().manual_seed(1))
    assert rotated.shape == wide.shape
    assert set(turns.tolist()) == {0, 2}
    assert torch.equal(rotated[turns == 2], wide[turns == 2].flip(2, 3))
    assert torch.equal(rotated[turns == 0], wide[turns == 0])


def test_defaults_are_the_papers() -> None:
    config = ReMixMatchConfig()
    assert (config.lambda_u, config.lambda_strong, config.lambda_rotation) == (1.5, 0.5, 0.5)
    assert (config.temperature, config.alpha, config.strong_views, config.alignment_steps) == (0.5, 0.75, 8, 128)
    assert ReMixMatch(config, make_task(3)).views == ReMixMatch.views
