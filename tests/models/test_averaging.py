"""The averaged model against numbers computed by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from semco.models.averaging import ema_copy, ema_decay_at, update_ema


def small_network() -> nn.Module:
    network = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1))
    with torch.no_grad():
        network[0].weight.fill_(2.0)
    return network


def test_parameters_are_averaged_and_buffers_copied() -> None:
    network = small_network()
    average = ema_copy(network)
    with torch.no_grad():
        network[0].weight.fill_(4.0)
    network[1].running_mean.fill_(7.0)
    update_ema(average, network, 0.75)
    assert average[0].weight.item() == pytest.approx(0.75 * 2 + 0.25 * 4)
    assert average[1].running_mean.item() == 7.0
    assert average[1].num_batches_tracked.item() == network[1].num_batches_tracked.item()


def test_a_network_without_buffers() -> None:
    network = nn.Linear(1, 1, bias=False)
    average = ema_copy(network)
    with torch.no_grad():
        average.weight.fill_(2.0)
        network.weight.fill_(4.0)
    update_ema(average, network, 0.75)
    assert average.weight.item() == pytest.approx(2.5)


def test_the_copy_is_frozen_and_evaluates() -> None:
    network = small_network().train()
    average = ema_copy(network)
    assert not average.training
    assert network.training
    assert not any(p.requires_grad for p in average.parameters())
    assert all(p.requires_grad for p in network.parameters())


def test_decay_warms_up() -> None:
    assert ema_decay_at(0, 0.999, warmup=True) == pytest.approx(0.1)
    assert ema_decay_at(90, 0.999, warmup=True) == pytest.approx(0.91)
    assert ema_decay_at(100_000, 0.999, warmup=True) == 0.999
    assert ema_decay_at(0, 0.999, warmup=False) == 0.999
