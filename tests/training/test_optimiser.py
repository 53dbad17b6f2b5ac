"""Which parameters decay, and which learn at which rate."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from semco.config import ModelConfig, OptimConfig
from semco.models import Network, build_network
from semco.models.tuning import tune_network
from semco.training.optimiser import StartDecay, build_optimiser, parameter_groups


def make_network() -> Network:
    torch.manual_seed(0)
    return build_network(ModelConfig(backbone="wrn-10-1"), ("semantic",), 3, 4, 3, 8)


def ids(parameters: object) -> set[int]:
    return {id(parameter) for parameter in parameters}  # type: ignore[attr-defined]


def test_biases_and_normalisation_do_not_decay() -> None:
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(2, 2))
    decayed, others = parameter_groups(list(network.parameters()), 0.1, lr=0.5)
    assert [p.ndim for p in decayed["params"]] == [4, 2]
    assert [p.ndim for p in others["params"]] == [1, 1, 1, 1]
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert all(group["lr"] == group["highest"] == 0.5 for group in (decayed, others))


def test_frozen_parameters_are_left_out() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
    network[0].requires_grad_(False)
    decayed, others = parameter_groups(list(network.parameters()), 0.1, lr=0.5)
    assert [tuple(p.shape) for p in decayed["params"]] == [(4, 3)]
    assert [tuple(p.shape) for p in others["params"]] == [(4,)]


def test_one_rate_makes_two_groups() -> None:
    network, method = make_network(), nn.Linear(2, 2)
    groups = build_optimiser(OptimConfig(lr=0.03, backbone_lr=0.03), network, method).param_groups
    assert [group["highest"] for group in groups] == [0.03, 0.03]
    assert ids(p for group in groups for p in group["params"]) == ids([*network.parameters(), *method.parameters()])


def test_two_rates_make_groups_for_the_heads_and_for_the_backbone() -> None:
    network, method = make_network(), nn.Linear(2, 2)
    config = OptimConfig(weight_decay=0.1, lr=0.03, backbone_lr=0.003)
    groups = build_optimiser(config, network, method).param_groups
    assert [group["highest"] for group in groups] == [0.03, 0.03, 0.003, 0.003]
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0, 0.1, 0.0]
    heads = [*network.heads.parameters(), *method.parameters()]
    assert ids([*groups[0]["params"], *groups[1]["params"]]) == ids(heads)
    assert ids([*groups[2]["params"], *groups[3]["params"]]) == ids(network.backbone.parameters())


@pytest.mark.parametrize("tune", ["top", "heads"])
def test_only_the_trained_part_is_optimised(tune: str) -> None:
    network = make_network()
    tuned = tune_network(network, tune, freeze_norm=True)  # type: ignore[arg-type]
    optimiser = build_optimiser(OptimConfig(lr=0.03, backbone_lr=0.003), tuned.trained(), nn.Identity())
    expected = ids(p for p in network.parameters() if p.requires_grad)
    assert ids(p for group in optimiser.param_groups for p in group["params"]) == expected
    (tuned.trained()(torch.randn(2, *((64,) if tune == "heads" else (32, 4, 4)))).logits.sum()).backward()
    optimiser.step()  # groups without parameters are no error


def test_a_step_is_plain_gradient_descent_at_the_rate_of_each_group() -> None:
    """Without momentum and decay: weight - rate * gradient."""
    network = make_network()
    config = OptimConfig(momentum=0.0, weight_decay=0.0, lr=0.5, backbone_lr=0.125)
    optimiser = build_optimiser(config, network, nn.Identity())
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    for p in network.parameters():
        p.grad = torch.full_like(p, 2.0)
    optimiser.step()
    for name, p in network.named_parameters():
        step = 0.25 if name.startswith("backbone.") else 1.0
        torch.testing.assert_close(p.detach(), before[name] - step)


def test_momentum_and_decay_equal_values_computed_by_hand() -> None:
    """Weight 1, gradient 1, decay 0.1: g = 1.1; Nesterov's first step is lr * (g + 0.5 g) = 0.1 * 1.65."""
    network = make_network()
    config = OptimConfig(momentum=0.5, weight_decay=0.1, lr=0.1, backbone_lr=0.01)
    head = network.heads["one_hot"]
    assert isinstance(head, nn.Linear)
    nn.init.ones_(head.weight)
    nn.init.ones_(head.bias)
    optimiser = build_optimiser(config, network, nn.Identity())
    for p in network.parameters():
        p.grad = torch.ones_like(p)
    optimiser.step()
    torch.testing.assert_close(head.weight.detach(), torch.full_like(head.weight, 1 - 0.165))
    torch.testing.assert_close(head.bias.detach(), torch.full_like(head.bias, 1 - 0.15))  # does not decay


def test_the_loss_of_start_decay_is_half_the_squared_distance_to_the_first_weights() -> None:
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -2.0]]))
        layer.bias.fill_(0.5)
    decay = StartDecay(layer, 0.1)
    assert decay().item() == 0
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[4.0, -2.0]]))
        layer.bias.fill_(1.5)
    loss = decay()
    loss.backward()
    assert loss.item() == pytest.approx(0.1 / 2 * (3**2 + 1**2))
    torch.testing.assert_close(layer.weight.grad, torch.tensor([[0.3, 0.0]]))
    torch.testing.assert_close(layer.bias.grad, torch.tensor([0.1]))


def test_start_decay_leaves_frozen_weights_out() -> None:
    layer = nn.Linear(1, 1)
    layer.bias.requires_grad_(False)
    decay = StartDecay(layer, 2.0)
    with torch.no_grad():
        layer.weight.add_(1)
        layer.bias.add_(1)
    assert decay().item() == pytest.approx(1.0)
