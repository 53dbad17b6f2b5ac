"""How the network is run: what is recomputed, and with how many threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch._functorch.config as compiler
from torch import Tensor, nn

from semco.config import ModelConfig, TrainingConfig
from semco.models import build_network
from semco.models.activation import Block, after_activation
from semco.models.normalisation import WarmBatchNorm2d
from semco.training.compilation import VARIABLE, compiled_steps
from semco.training.execution import prepare_network, threads_for_steps
from semco.training.signals import StopRequest

CPU = torch.device("cpu")


@pytest.fixture
def network() -> nn.Module:
    return build_network(ModelConfig(backbone="wrn-10-1"), ("semantic",), 3, 4, 3, 8)


def test_a_step_that_is_not_compiled_does_not_import_the_compiler() -> None:
    """It takes over a second, which every run and every process of it would pay."""
    code = """
import sys
import torch
from semco.config import ModelConfig, OptimConfig
from semco.models import build_network
from semco.models.network import feature_size
from semco.training.compilation import compiled_steps
from semco.training.optimiser import build_optimiser
model = ModelConfig(backbone="wrn-10-1")
feature_size(model, 3, 8)
network = build_network(model, ("semantic",), 3, 4, 3, 8)
optimiser = build_optimiser(OptimConfig(lr=0.1, backbone_lr=0.1), network, torch.nn.Module())
optimiser.zero_grad()
with compiled_steps(False, True, None):
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


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")  # torch's own compiler uses it
@pytest.mark.parametrize(("choice", "maps"), [(False, 6), (True, 3)])
def test_a_compiled_network_makes_maps_again_too(choice: bool, maps: int) -> None:
    torch._dynamo.reset()
    parts = [(WarmBatchNorm2d(8), nn.Conv2d(8, 8, 3, padding=1, bias=False)) for _ in range(3)]
    x = torch.randn(4, 8, 16, 16, requires_grad=True)
    kept: dict[int, int] = {}

    # What is kept is decided before code is written, which this back end leaves out.
    @torch.compile(backend="aot_eager_decomp_partition", dynamic=False)
    def chain(values: Tensor) -> Tensor:
        for norm, conv in parts:
            values = after_activation(conv, norm, values, 0.1, recompute=False)
        return values

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.numel()
        return tensor

    with (
        compiled_steps(True, choice, StopRequest()),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        chain(x)
    assert sum(size for size in kept.values() if size >= x.numel()) == maps * x.numel()
    assert not compiler.aggressive_recomputation


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
def test_compiled_code_is_kept_in_a_folder_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for before, expected in ((None, tmp_path / "semco" / "compiled"), ("/their/own", "/their/own")):
        monkeypatch.delenv(VARIABLE, raising=False)
        if before:
            monkeypatch.setenv(VARIABLE, before)
        with compiled_steps(True, False, StopRequest()):
            assert os.environ[VARIABLE] == str(expected)
        assert os.environ.get(VARIABLE) == before


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
