"""In which precision the backbone computes: float32, or bfloat16 where the machine has instructions for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from semco.errors import UserError
from semco.models import Precision

EMULATED = "this machine has no instructions for bfloat16: the run takes many times as long as in float32"
USED = "the network computes in bfloat16, for which this machine has instructions"


@dataclass(frozen=True)
class Choice:
    """A precision and, if the user should hear of it, why."""

    precision: Precision
    reason: str = ""


def has_bfloat16(device: torch.device) -> bool:
    """Return whether a device has instructions for bfloat16: a GPU, or a CPU with AMX or AVX512_BF16.

    The variable ONEDNN_MAX_CPU_ISA keeps oneDNN, which computes the convolutions, from instructions of a CPU.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "ALL").upper()
    if device.type != "cpu" or not any(name in limit for name in ("ALL", "DEFAULT", "BF16", "FP16", "AMX", "AVX10")):
        return False
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._init_amx())


def is_depthwise(network: nn.Module) -> bool:
    """Return whether a network has convolutions in groups; on CPUs these are slower in bfloat16."""
    return any(isinstance(part, nn.Conv2d) and part.groups > 1 for part in network.modules())


def choose_precision(
    wanted: Literal["auto", "float32", "bfloat16"], device_type: str, has_instructions: bool, depthwise: bool
) -> Choice:
    """Return the precision of a run; ``auto`` is bfloat16 where it is faster (docs/lab/speed.md)."""
    if wanted == "float32":
        return Choice("float32")
    if wanted == "auto":
        is_faster = has_instructions and not (device_type == "cpu" and depthwise)
        return Choice("bfloat16", USED) if is_faster else Choice("float32")
    if has_instructions:
        return Choice("bfloat16")
    if device_type == "cuda":
        raise UserError("this GPU has no bfloat16: set training.precision=float32.")
    return Choice("bfloat16", EMULATED)


def usable_precision(saved: Precision, device: torch.device) -> Precision:
    """Return the precision of a saved model, or float32 on a machine that has no bfloat16."""
    return saved if has_bfloat16(device) else "float32"
