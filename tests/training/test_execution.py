"""How the network is run: when it is compiled, and what is recomputed."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch._functorch.config as compiler
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from semco.config import ModelConfig, TrainingConfig
from semco.models import build_network
from semco.models.activation import Block, after_activation
from semco.models.normalisation import WarmBatchNorm2d
from semco.training.compiler import compilation
from semco.training.compiler.compilation import choose_compilation, compiler_options, multiply_adds
from semco.training.execution import prepare_network, threads_for_steps

CPU = torch.device("cpu")


@pytest.fixture
def network() -> nn.Module:
    return build_network(ModelConfig(backbone="wrn-10-1"), ("semantic",), 3, 4, 3, 8)


def test_multiply_adds_by_hand() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1, bias=False), nn.Flatten(), nn.Linear(5 * 8 * 8, 7))
    weight = layers[0].weight
    assert multiply_adds(layers, (3, 8, 8)) == 3 * 5 * 9 * 64 + 5 * 64 * 7
    assert layers[0].weight is weight
    assert weight.device == CPU


@pytest.mark.parametrize("backbone", ["wrn-10-1", "resnet18", "cnn-13", "efficientnet-lite0"])
def test_multiply_adds_are_what_torch_counts(backbone: str) -> None:
    config = ModelConfig(backbone=backbone, pretrained="none")
    network = build_network(config, ("semantic", "rotation"), 3, 4, 3, 16).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(1, 3, 16, 16))
    assert multiply_adds(network, (3, 16, 16)) == counter.get_total_flops() / 2


def test_a_step_that_is_not_compiled_does_not_import_the_compiler() -> None:
    """It takes over a second, which every run and every process of it would pay."""
    code = """
import sys
import torch
from semco.config import ModelConfig, OptimConfig, TrainingConfig
from semco.models import build_network
from semco.models.network import feature_size
from semco.training.compiler.compilation import choose_compilation
from semco.training.optimiser import Rates, build_optimiser
model = ModelConfig(backbone="wrn-10-1")
feature_size(model, 3, 8)
network = build_network(model, ("semantic",), 3, 4, 3, 8)
choose_compilation(TrainingConfig(steps=1), network, (3, 8, 8), 1, torch.device("cpu"))
optimiser = build_optimiser(OptimConfig(), Rates(0.1, 0.1), network, torch.nn.Module())
optimiser.zero_grad()
network(torch.zeros(2, 3, 8, 8)).logits.sum().backward()
optimiser.step()
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_counting_multiply_adds_leaves_the_network_as_it_was(network: nn.Module) -> None:
    network.train()
    network.heads.eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    multiply_adds(network, (3, 8, 8))
    assert network.backbone.training
    assert not network.heads.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_long_runs_compile_and_short_ones_do_not(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation.shutil, "which", lambda _: "/usr/bin/c++")
    work = 100 * multiply_adds(network, (3, 8, 8)) / compilation.EAGER_RATE * compilation.COMPILE_SAVES
    layers = sum(isinstance(part, nn.Conv2d) for part in network.modules())
    back = round(layers * compilation.COMPILE_SECONDS / work)
    for steps, wanted in ((back, False), (2 * back - 1, False), (2 * back, True)):
        chosen = choose_compilation(TrainingConfig(steps=steps), network, (3, 8, 8), 100, CPU)
        assert chosen.is_wanted is wanted
        assert f"pays off after about {back} steps" in chosen.reason
    # Twice the work, and it is worth it twice as soon.
    assert choose_compilation(TrainingConfig(steps=back + 1), network, (3, 8, 8), 200, CPU).is_wanted


def test_what_is_asked_for_is_done(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_compilation(TrainingConfig(steps=1, compile="on"), network, (3, 8, 8), 1, CPU).is_wanted
    assert not choose_compilation(TrainingConfig(compile="off"), network, (3, 8, 8), 10**6, CPU).is_wanted
    monkeypatch.setattr(compilation.shutil, "which", lambda _: None)
    chosen = choose_compilation(TrainingConfig(), network, (3, 8, 8), 10**6, CPU)
    assert (chosen.is_wanted, chosen.reason) == (False, "there is no C++ compiler")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_heads_alone_are_not_compiled(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation.shutil, "which", lambda _: "/usr/bin/c++")
    chosen = choose_compilation(TrainingConfig(steps=10**6), nn.Linear(64, 10), (64,), 100, torch.device(device))
    assert (chosen.is_wanted, chosen.reason) == (False, "there are no convolutions to compile")


@pytest.mark.parametrize(
    ("choice", "device", "expected"),
    [("on", "meta", True), ("off", "cpu", False), ("auto", "cpu", True), ("auto", "meta", False)],
)
def test_maps_are_made_again_where_that_was_measured(choice: str, device: str, expected: bool) -> None:
    network = build_network(ModelConfig(backbone="wrn-10-1"), ("one_hot",), 3, 4, 3, 16)
    placed = prepare_network(network, TrainingConfig(recompute=choice), torch.device(device))
    assert {block.recompute for block in placed.modules() if isinstance(block, Block)} == {expected}


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")  # torch's own compiler uses it
@pytest.mark.parametrize(("choice", "maps"), [("off", 6), ("on", 3)])
def test_a_compiled_network_makes_maps_again_too(choice: str, maps: int) -> None:
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
        compiler_options(TrainingConfig(recompute=choice), CPU),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        chain(x)
    assert sum(size for size in kept.values() if size >= x.numel()) == maps * x.numel()
    assert not compiler.aggressive_recomputation


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
