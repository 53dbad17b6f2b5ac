"""How the network is run: what is recomputed, with how many threads, and how long it takes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from semco.config import ModelConfig, TrainingConfig
from semco.models import build_network
from semco.models.activation import Block
from semco.training import execution
from semco.training.execution import prepare_network, threads_for_steps

CPU = torch.device("cpu")


@pytest.fixture
def network() -> nn.Module:
    return build_network(ModelConfig(backbone="wrn-10-1"), ("semantic",), 3, 4, 3, 8)


def test_a_step_does_not_import_the_compiler() -> None:
    """It takes over a second, which every run and every process of it would pay."""
    code = """
import sys
import torch
from semco.config import ModelConfig, OptimConfig
from semco.models import build_network
from semco.models.network import feature_size
from semco.training.optimiser import build_optimiser
model = ModelConfig(backbone="wrn-10-1")
feature_size(model, 3, 8)
network = build_network(model, ("semantic",), 3, 4, 3, 8)
optimiser = build_optimiser(OptimConfig(lr=0.1, backbone_lr=0.1), network, torch.nn.Module())
optimiser.zero_grad()
network(torch.zeros(2, 3, 8, 8)).logits.sum().backward()
optimiser.step()
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("choice", [True, False])
def test_maps_are_made_again_if_configured(choice: bool, device: str) -> None:
    network = build_network(ModelConfig(backbone="wrn-10-1"), ("one_hot",), 3, 4, 3, 16)
    placed = prepare_network(network, TrainingConfig(recompute=choice, precision="float32"), torch.device(device))
    assert {block.recompute for block in placed.modules() if isinstance(block, Block)} == {choice}


@pytest.mark.parametrize(
    ("network", "views", "threads"),
    [
        (nn.Linear(1280, 168), 224, 1),  # two heads for 40 classes on frozen features
        (nn.Linear(1280, 10_000), 224, 3),  # for 10,000 classes
        (nn.Conv2d(3, 4, 3), 1, 3),
    ],
)
def test_small_linear_layers_are_trained_with_one_thread(network: nn.Module, views: int, threads: int) -> None:
    torch.set_num_threads(3)
    try:
        with threads_for_steps(network, views):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == 3
        with pytest.raises(KeyboardInterrupt), threads_for_steps(network, views):
            raise KeyboardInterrupt
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)  # as in all tests


@pytest.mark.parametrize(
    ("durations", "expected"),
    [
        ([9.0, 1.4, 1.5], 1.4),  # the first warms up; two long repeats are enough
        ([9.0, 0.4, 0.5, 0.3, 0.4], 0.3),  # four of middle length
        ([9.0, 0.1, 0.05, 0.03, 0.02, 0.11], 0.02),  # short ones are repeated until they add up to SECONDS
        ([0.01, 5.0, 6.0], 5.0),  # a first one that is short by chance does not count
    ],
)
def test_the_shortest_time_after_warming_up(
    durations: list[float], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, left = [0.0], list(durations)
    monkeypatch.setattr(execution, "SECONDS", 0.3)
    monkeypatch.setattr(execution.time, "perf_counter", lambda: now[0])

    def run() -> None:
        now[0] += left.pop(0)

    assert execution.shortest_time(run) == pytest.approx(expected)
    assert left == []
