"""Activations that are recomputed in the backward pass instead of stored."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from semco.config import ModelConfig
from semco.models import build_network
from semco.models.activation import after_activation, recompute_activations, recomputed
from semco.models.normalisation import WarmBatchNorm2d


def gradients(backbone: str, norm: str, recompute: bool) -> list[Tensor]:
    torch.manual_seed(0)
    config = ModelConfig(backbone=backbone, norm=norm)
    network = build_network(config, ("one_hot",), 3, 4, 3, 16)
    if recompute:
        recompute_activations(network)
    images = torch.randn(4, 3, 16, 16)
    for _ in range(2):  # the second pass would see statistics that were updated twice
        network.zero_grad()
        network(images).logits.square().sum().backward()
    return [*(p.grad for p in network.parameters() if p.grad is not None), *network.buffers()]


@pytest.mark.parametrize(
    ("backbone", "norm"), [("wrn-10-1", "batch"), ("resnet18", "batch"), ("resnet50", "batch"), ("wrn-10-1", "none")]
)
def test_gradients_and_statistics_are_the_same_bit_for_bit(backbone: str, norm: str) -> None:
    kept, made = gradients(backbone, norm, recompute=False), gradients(backbone, norm, recompute=True)
    assert len(kept) == len(made) > 10
    assert all(torch.equal(a, b) for a, b in zip(kept, made, strict=True))


def bytes_kept(recompute: bool) -> int:
    """Of a step of three norms, activations and convolutions, by storage, each counted once."""
    torch.manual_seed(0)
    parts = [(WarmBatchNorm2d(8), nn.Conv2d(8, 8, 3, padding=1, bias=False)) for _ in range(3)]
    x = torch.randn(4, 8, 16, 16, requires_grad=True)
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        values: Tensor = x
        for norm, conv in parts:
            values = after_activation(conv, norm, values, 0.1, recompute)
    return sum(size for size in kept.values() if size >= x.numel() * 4)


def test_one_map_a_convolution_is_kept_instead_of_two() -> None:
    one_map = 4 * 8 * 16 * 16 * 4
    assert bytes_kept(recompute=False) == 6 * one_map
    assert bytes_kept(recompute=True) == 3 * one_map


def test_a_map_is_made_once_for_all_who_ask_in_each_backward_pass() -> None:
    made: list[int] = []
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    double = x * 2

    def make() -> Tensor:
        made.append(1)
        return x.detach() * 2

    with recomputed(double, make):
        result = double.square() + double.exp() * double
    for times in (1, 2):
        x.grad = None
        result.sum().backward(retain_graph=True)
        assert len(made) == times
        d = 2 * x.detach()
        torch.testing.assert_close(x.grad, 2 * (2 * d + d.exp() * (d + 1)))
