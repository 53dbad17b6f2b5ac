"""On what, and how, the network is run: device, precision, memory format, compilation."""

from __future__ import annotations

import os
import shutil
from typing import TypeVar

import torch
from torch import nn

from semco.config import TrainingConfig
from semco.errors import UserError
from semco.models.normalisation import synchronise
from semco.training.distributed import Processes

N = TypeVar("N", bound=nn.Module)

# Compiling costs about a minute for a WRN-28-2 and saves a part of every step; below so many steps it does not pay.
COMPILE_PAYS_AFTER = 1500


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


def compile_pays(config: TrainingConfig) -> bool:
    """Whether to compile: asked for, or the run is long enough and there is a compiler to do it."""
    if config.compile != "auto":
        return config.compile == "on"
    has_compiler = any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++"))
    return has_compiler and config.total_steps >= COMPILE_PAYS_AFTER


def prepare_network(network: N, config: TrainingConfig, device: torch.device) -> N:
    """The network on its device, channels-last; with synchronised normalisation where that is asked for."""
    if config.sync_batch_norm:
        synchronise(network)
    placed: N = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return placed
