"""On what, and how, the network is run: device, precision, memory format, compilation.

Shapes: C channels, H height, W width.
"""

from __future__ import annotations

import copy
import os
import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
import torch._functorch.config as compiler
from torch import nn

from semco.config import TrainingConfig
from semco.errors import UserError
from semco.models.activation import recompute_activations
from semco.models.normalisation import synchronise
from semco.training.distributed import Processes

N = TypeVar("N", bound=nn.Module)

# Measured on two cores with WRN-28-2 (docs/speed.md): seconds that compiling takes for each convolution, the part of a
# step that it saves, and the speed of a step without it, in multiply-adds of one forward pass over all its views.
COMPILE_SECONDS = 2.3
COMPILE_SAVES = 0.075
EAGER_RATE = 50e9
# Not measured: steps after which a GPU, whose steps are so much shorter, is expected to have it back.
GPU_STEPS = 5000


def choose_device(name: str, processes: Processes) -> torch.device:
    """``auto`` is this process's GPU where there is one, else the CPU."""
    if name == "auto":
        name = f"cuda:{processes.local_rank}" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"device {name!r} cannot be used ({reason}); try training.device=cpu.") from None
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")  # TF32
        torch.backends.cudnn.benchmark = True
    return device


def choose_precision(name: str, device: torch.device) -> torch.dtype | None:
    """The type of autocast, or None for plain float32."""
    if name == "auto":
        if device.type != "cuda":
            return None
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


@dataclass(frozen=True)
class Compilation:
    """Whether to compile the network, and why."""

    wanted: bool
    reason: str


def choose_compilation(
    config: TrainingConfig, network: nn.Module, image_shape: tuple[int, ...], views: int, device: torch.device
) -> Compilation:
    """As asked for; ``auto`` compiles where the run is long enough to have the time back, by expectation alone.

    ``image_shape`` (C, H, W) and the number of ``views`` of a step say how much work that is. A clock does not, as a
    resumed run must choose as it did before.
    """
    if config.compile != "auto":
        return Compilation(config.compile == "on", f"training.compile is {config.compile}")
    if not any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++")):
        return Compilation(False, "there is no C++ compiler")
    layers = sum(isinstance(part, nn.Conv2d) for part in network.modules())
    seconds = COMPILE_SECONDS * layers
    steps = GPU_STEPS
    if device.type == "cpu":
        step = views * multiply_adds(network, image_shape) / EAGER_RATE
        steps = round(seconds / (COMPILE_SAVES * step))
    expected = f"compiling takes about {seconds:.0f} s and has them back after about {steps} steps"
    return Compilation(config.total_steps >= 2 * steps, expected)  # where it does little, it should not be in the way


def multiply_adds(network: nn.Module, image_shape: tuple[int, ...]) -> float:
    """Of one image (C, H, W) on its way forward, counted without doing them."""
    from torch.utils.flop_counter import FlopCounterMode

    weightless = copy.deepcopy(network).to("meta").eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        weightless(torch.empty((1, *image_shape), device="meta"))
    return float(counter.get_total_flops()) / 2


def compiling(config: TrainingConfig, device: torch.device) -> AbstractContextManager[object]:
    """While it lasts, a network that is compiled follows ``training.recompute``, as one that is not does by itself.

    Left alone, the compiler keeps each convolution's input beside the map that it is made of.
    """
    return compiler.patch(aggressive_recomputation=True) if _makes_maps_again(config, device) else nullcontext()


def forget_empty_libraries() -> None:
    """A compiler that is killed leaves an empty library in torch's cache, at which every later run would fail."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    for file in Path(cache_dir()).rglob("*.so"):
        if file.stat().st_size == 0:
            file.unlink(missing_ok=True)


def _makes_maps_again(config: TrainingConfig, device: torch.device) -> bool:
    return config.recompute == "on" or (config.recompute == "auto" and device.type == "cpu")


def prepare_network(network: N, config: TrainingConfig, device: torch.device) -> N:
    """The network on its device, channels-last; synchronised, or with little memory, where that is asked for."""
    if config.sync_batch_norm:
        synchronise(network)
    if _makes_maps_again(config, device):
        recompute_activations(network)
    placed: N = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return placed
