"""DeViSE: the ranking loss by hand, and a head that learns where unseen classes lie.

Shapes: N images, F features, K classes, d embedding size.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from semco.config import Config
from semco.evaluation.run import evaluate_heads, evaluate_run
from semco.experiment import train
from semco.losses import cosine_loss, ranking_loss
from semco.pseudo_labels import class_probabilities, solve_scale

Make = Callable[..., "object"]


def test_ranking_loss_by_hand() -> None:
    matrix = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    # q = (1, 0), y = 0: dots 1, 0, .6, all more than the margin apart, so 0 at .1 and .1 at .5.
    # q = (1, 1), y = 1: dots 1, 1, 1.4: margin for class 0, margin + .4 for class 2.
    q, y = torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([0, 1])
    torch.testing.assert_close(ranking_loss(q, y, matrix, 0.1), torch.tensor([0.0, 0.6 / 2]))
    torch.testing.assert_close(ranking_loss(q, y, matrix, 0.5), torch.tensor([0.1, 1.4 / 2]))


@pytest.mark.parametrize("loss", ["ranking", "cosine"])
def test_losses_against_a_loop(loss: str, bench: Make, batch: Make) -> None:
    b = bench("devise", loss=loss, margin=0.3, semantic_weight=2.0)
    example = batch(b.method.views, 7)
    result = b.step(example)
    outputs, total = b.network(example.labelled.weak[0]), 0.0
    M = b.task.label_vectors
    for q, y in zip(outputs.embedding.detach(), example.class_ids.tolist(), strict=True):
        if loss == "cosine":
            total += 1 - float(M[y] @ q / q.norm())
        else:
            terms = [0.3 - float(M[y] @ q) + float(M[j] @ q) for j in range(7) if j != y]
            total += sum(t for t in terms if t > 0) / max(1, sum(t > 0 for t in terms))
    assert float(result.losses["supervised_semantic"].detach()) == pytest.approx(total / 4, rel=1e-4)
    one_hot = float(F.cross_entropy(outputs.logits, example.class_ids).detach())
    assert float(result.total.detach()) == pytest.approx(one_hot + 2 * total / 4, rel=1e-4)


@pytest.mark.parametrize("loss", ["ranking", "cosine"])
def test_a_linear_head_finds_classes_it_never_saw(loss: str) -> None:
    """Images are noisy linear pictures of class vectors: whoever learns the map knows every class."""
    generator = torch.Generator().manual_seed(0)
    matrix = F.normalize(torch.randn(30, 6, generator=generator), dim=-1)
    pictures = torch.randn(6, 20, generator=generator)

    def images(labels: torch.Tensor) -> torch.Tensor:
        return matrix[labels] @ pictures + 0.3 * torch.randn(len(labels), 20, generator=generator)

    labels = torch.arange(24).repeat(20)  # classes 24 to 29 are not among them
    x, head = images(labels), torch.zeros(20, 6, requires_grad=True)
    seen = matrix[:24]
    optimiser = torch.optim.SGD([head], lr=0.05, momentum=0.9)
    for _ in range(200):
        q = x @ head
        each = ranking_loss(q, labels, seen, 0.1) if loss == "ranking" else cosine_loss(seen[labels], q)
        optimiser.zero_grad()
        each.mean().backward()
        optimiser.step()
    unseen = torch.arange(24, 30).repeat(10)
    scores = class_probabilities(images(unseen) @ head.detach(), matrix[24:], 10.0)
    accuracy = float((scores.argmax(dim=-1) == unseen - 24).float().mean())
    assert accuracy > 0.85  # 1 / 6 by chance


def test_the_scale_is_solved_or_given(bench: Make) -> None:
    solved = bench("devise").method
    task = bench("devise").task
    assert solved.scale == pytest.approx(solve_scale(task.label_vectors, task.group_ids, 0.9, task.class_names))
    assert bench("devise", scale=7.5).method.scale == 7.5


def test_the_semantic_head_predicts_and_all_heads_are_measured(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    values = {**tiny_values, "method": {"name": "devise"}}
    result = train(Config.parse(values), tmp_path / "run")
    assert result.head == "semantic"
    assert list(result.heads) == ["one_hot", "semantic", "average"]
    assert result.test_accuracy == result.heads["semantic"]["accuracy"]
    found = evaluate_heads(tmp_path / "run")
    assert list(found) == ["semantic", "one_hot", "average"]  # the head of the run first
    assert {head: each.numbers() for head, each in found.items()} == {
        head: pytest.approx(numbers, abs=1e-6) for head, numbers in result.heads.items()
    }
    assert {head: each.accuracy for head, each in found.items()} == {
        head: evaluate_run(tmp_path / "run", head).accuracy for head in found
    }
