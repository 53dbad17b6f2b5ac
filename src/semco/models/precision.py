"""Where bfloat16 is computed by instructions of its own."""

from __future__ import annotations

import os

import torch
from torch import nn

from semco.models.backbone import Precision


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


def usable_precision(saved: Precision, device: torch.device) -> Precision:
    """Return the precision of a saved model, or float32 on a machine that has no bfloat16."""
    return saved if has_bfloat16(device) else "float32"
