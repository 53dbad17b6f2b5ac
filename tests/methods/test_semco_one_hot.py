"""Table 4: the semantic head predicts one-hot targets by a cross-entropy, and only grouping tells the heads apart."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from semco.config import configure
from semco.errors import UserError
from semco.methods import Method, build_method
from semco.types import Batch, EveryImage, Outputs, Progress, StepResult, Task, Views

K = 3


class SameLogits:
    """A `Forward` whose heads both return their input."""

    def __call__(self, *, no_grad: dict[str, Tensor], **views: Tensor) -> dict[str, Outputs]:
        return {name: Outputs(features=x, logits=x, embedding=x) for name, x in {**views, **no_grad}.items()}

    def begin(self, *, no_grad: dict[str, Tensor], **views: Tensor) -> EveryImage:
        return EveryImage(self(no_grad=no_grad, **views))


def step(weak: Tensor, strong: Tensor, groups: list[int], name: str = "semco", **fields: object) -> StepResult:
    task = Task(tuple("abc"), torch.eye(K), torch.tensor(groups), torch.ones(K).long(), len(weak))
    config = Method.registry[name].Config(semantic_loss="cross_entropy", semantic_weight=1.0, **fields)
    labelled = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    index = torch.arange(2), torch.arange(len(weak))
    batch = Batch(torch.tensor([0, 1]), Views((labelled,)), Views((weak,), (strong,)), *index)
    return build_method(config, task).compute(batch, SameLogits(), Progress(0, 1, 1, torch.Generator()))


def test_without_groups_both_heads_have_the_same_losses() -> None:
    weak, strong = torch.randn(2, 20, K, generator=torch.Generator().manual_seed(0)).mul(3)
    result = step(weak, strong, [0, 1, 2], tau_e=0.8, tau_o=0.8)
    assert 0 < float(result.metrics["mask_one_hot"]) < 1
    for kind in ("supervised", "unlabelled", "cotraining"):
        assert float(result.losses[f"{kind}_semantic"]) == pytest.approx(float(result.losses[f"{kind}_one_hot"]))
        assert result.weights.get(f"{kind}_semantic", 1.0) == result.weights.get(f"{kind}_one_hot", 1.0)


def test_a_group_by_hand() -> None:
    """p = (.5, .4, .1): no class reaches 0.7, but the group of a and b does; its label is (5, 4, 0) / 9."""
    weak = torch.tensor([[0.5, 0.4, 0.1]]).log()
    strong = torch.tensor([[0.2, 0.2, 0.6]]).log()
    result = step(weak, strong, [0, 0, 1], tau_e=0.7, tau_o=0.95)
    assert float(result.metrics["mask_semantic"]) == 1
    assert float(result.metrics["mask_one_hot"]) == 0
    assert float(result.losses["unlabelled_semantic"]) == pytest.approx(-math.log(0.2))
    assert float(result.losses["cotraining_one_hot"]) == pytest.approx(-math.log(0.2))
    other = step(weak, torch.tensor([[0.1, 0.3, 0.6]]).log(), [0, 0, 1], tau_e=0.7)
    assert float(other.losses["unlabelled_semantic"]) == pytest.approx(-(5 * math.log(0.1) + 4 * math.log(0.3)) / 9)


def test_semco_plus_averages_the_softmaxes_of_both_heads() -> None:
    weak = torch.tensor([[0.5, 0.4, 0.1]]).log()
    result = step(weak, weak, [0, 0, 1], "semco_plus", thresholds={"rule": "fixed", "tau_e": 0.89, "tau_o": 0.95})
    semantic = result.pseudo_labels["semantic"]
    assert float(semantic.confidence) == pytest.approx(0.9)


def test_it_needs_one_hot_targets() -> None:
    task = Task(tuple("abc"), torch.eye(K)[:, :2], torch.arange(K), torch.ones(K).long(), 4)
    for name in ("semco", "semco_plus"):
        with pytest.raises(UserError, match=r"needs one-hot targets: set labels\.targets=one_hot"):
            build_method(Method.registry[name].Config(semantic_loss="cross_entropy"), task)
    with pytest.raises(UserError, match=r"method\.semantic_loss = 'cross_entropy': input should be 'cosine'"):
        configure("reference,one-hot-targets")


def test_both_readings_are_recipes() -> None:
    table, other = (configure(f"cifar100-2500-mu7,semco,{name}") for name in ("one-hot-targets", "one-hot-cosine"))
    assert table.labels.targets == other.labels.targets == "one_hot"
    assert (table.method.semantic_loss, table.method.semantic_weight) == ("cross_entropy", 1.0)  # type: ignore[attr-defined]
    assert (other.method.semantic_loss, other.method.semantic_weight) == ("cosine", 3.0)  # type: ignore[attr-defined]
