"""How the network is run for a method: names, gradients, statistics."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from semco.config import ModelConfig
from semco.models import build_network, feature_size
from semco.models.averaging import ema_copy
from semco.training.forward import NetworkForward
from semco.types import Outputs


class Toy(nn.Module):
    """Features are the normalised input, logits twice that."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2, affine=False)
        self.factor = nn.Parameter(torch.tensor(2.0))
        self.calls: list[int] = []

    def forward(self, images: torch.Tensor) -> Outputs:
        self.calls.append(len(images))
        features = self.norm(images)
        return Outputs(features=features, logits=self.factor * features)


@pytest.fixture
def views() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"a": torch.randn(3, 2), "b": torch.randn(5, 2), "targets": torch.randn(4, 2)}


def test_targets_in_a_pass_of_their_own(views: dict[str, torch.Tensor]) -> None:
    network = Toy()
    forward = NetworkForward(network, ema_copy(network))
    out = forward(a=views["a"], b=views["b"], no_grad={"t": views["targets"]})
    assert network.calls == [4, 8]
    assert out["a"].logits.requires_grad
    assert not out["t"].logits.requires_grad
    alone = nn.BatchNorm1d(2, affine=False)(views["targets"])
    torch.testing.assert_close(out["t"].features, alone)
    together = nn.BatchNorm1d(2, affine=False)(torch.cat([views["a"], views["b"]]))
    torch.testing.assert_close(out["b"].features, together[3:])


def test_targets_in_a_pass_of_their_own_leave_the_running_statistics_to_the_others(
    views: dict[str, torch.Tensor],
) -> None:
    network = Toy()
    NetworkForward(network, ema_copy(network))(a=views["a"], no_grad={"t": views["targets"]})
    torch.testing.assert_close(network.norm.running_mean, 0.1 * views["a"].mean(dim=0))  # from 0, with momentum 0.1
    assert int(network.norm.num_batches_tracked) == 1


def test_targets_joined_are_normalised_with_the_rest_but_carry_no_gradient(views: dict[str, torch.Tensor]) -> None:
    network = Toy()
    forward = NetworkForward(network, ema_copy(network), "joint")
    out = forward(a=views["a"], no_grad={"t": views["targets"]})
    assert network.calls == [7]
    joined = nn.BatchNorm1d(2, affine=False)(torch.cat([views["a"], views["targets"]]))
    torch.testing.assert_close(out["t"].features, joined[3:])
    assert not out["t"].logits.requires_grad
    assert out["a"].logits.requires_grad


def test_only_targets(views: dict[str, torch.Tensor]) -> None:
    network = Toy()
    for mode in ("no_grad", "joint"):
        out = NetworkForward(network, ema_copy(network), mode)(no_grad={"t": views["targets"]})
        assert not out["t"].logits.requires_grad


def test_the_teacher_is_the_average(views: dict[str, torch.Tensor]) -> None:
    network = Toy()
    average = ema_copy(network)
    with torch.no_grad():
        average.factor.fill_(5.0)
    out = NetworkForward(network, average).teacher(a=views["a"])["a"]
    torch.testing.assert_close(out.logits, 5.0 * out.features)
    assert not out.logits.requires_grad


def test_statistics_can_be_left_alone(views: dict[str, torch.Tensor]) -> None:
    network = Toy()
    forward = NetworkForward(network, ema_copy(network))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    out = forward.without_statistics(a=views["a"])["a"]
    torch.testing.assert_close(out.features, nn.BatchNorm1d(2, affine=False)(views["a"]))
    assert out.logits.requires_grad
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    forward(a=views["a"])
    assert not torch.equal(before["norm.running_mean"], network.norm.running_mean)


def test_heads_answer_for_features_that_a_method_has_changed() -> None:
    torch.manual_seed(0)
    network = build_network(ModelConfig(backbone="wrn-10-1"), ("semantic",), 3, 4, 3, 8)
    forward = NetworkForward(network, ema_copy(network))
    features = forward(a=torch.randn(5, 3, 8, 8))["a"].features
    out = forward.heads(2 * features)
    torch.testing.assert_close(out.logits, network.heads["one_hot"](2 * features))
    torch.testing.assert_close(out.embedding, network.heads["semantic"](2 * features))
    out.logits.sum().backward()
    assert next(network.backbone.parameters()).grad is not None


@pytest.mark.parametrize("name", ["wrn-10-2", "wrn-28-2", "resnet18", "resnet50"])
def test_the_size_of_features_is_known_beforehand(name: str) -> None:
    config = ModelConfig(backbone=name)
    assert feature_size(config, 3, 32) == build_network(config, (), 3, 4, 3, 32).heads["one_hot"].in_features
