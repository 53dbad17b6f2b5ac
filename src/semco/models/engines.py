"""Engines that compute frozen layers: torch, ONNX Runtime or OpenVINO. Their outputs agree to 1e-4.

Shapes: N images, C channels, H and W pixels.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from semco.errors import UserError
from semco.models.backbone import features_of_views
from semco.models.recording import IMAGES, UnknownOperationError, to_onnx

LayerEngine = Literal["openvino", "onnx", "torch"]  # the fastest first (docs/lab/speed.md)
# The packages that an engine needs, and the extra that brings them.
_PACKAGES = {"openvino": ("openvino", "onnx"), "onnx": ("onnxruntime", "onnx"), "torch": ()}
# Batch size of the other engines: the activations of larger batches do not fit into the caches of a CPU.
AT_A_TIME = 4
# The largest accepted difference between folded and original layers, relative to the largest output.
TOLERANCE = 1e-4

Floats = NDArray[np.float32]


def installed_engines() -> frozenset[LayerEngine]:
    """Return the engines whose packages are installed."""
    return frozenset(name for name in get_args(LayerEngine) if not _missing(name))


def _missing(engine: LayerEngine) -> list[str]:
    return [name for name in _PACKAGES[engine] if find_spec(name) is None]


class EngineLayers(nn.Module):
    """Layers in evaluation mode that another engine than torch computes: images (N, C, H, W) to outputs."""

    def __init__(self, compute: Callable[[Floats], Floats]) -> None:
        super().__init__()
        self._compute = compute

    def forward(self, images: Tensor) -> Tensor:
        parts = [self._compute(part.numpy(force=True)) for part in images.contiguous().split(AT_A_TIME)]
        return torch.from_numpy(np.concatenate(parts)).to(images.device)

    def views(self, images: Tensor, *, has_close_up: bool) -> Tensor:
        """Return the features (N, V, F) of images, as `Backbone.views` does."""
        return features_of_views(self, images.contiguous(), has_close_up)


@torch.inference_mode(False)
@torch.no_grad()
def compile_layers(layers: nn.Module, shape: Sequence[int], engine: LayerEngine) -> nn.Module:
    """Return layers in evaluation mode that an engine computes, for images of a shape (C, H, W)."""
    if engine == "torch":
        return fold_norms(layers, shape)
    if missing := _missing(engine):
        raise UserError(
            f"the engine {engine} needs {' and '.join(missing)}: pip install 'semco[{engine}]', or use torch."
        )
    try:
        graph = to_onnx(layers, shape)
    except UnknownOperationError as error:
        raise UserError(f"the engine {engine} does not know {error}, which this network uses; use torch.") from None
    return EngineLayers((_openvino if engine == "openvino" else _onnxruntime)(graph, torch.get_num_threads()))


def _openvino(graph: bytes, threads: int) -> Callable[[Floats], Floats]:
    import openvino

    core = openvino.Core()
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",  # otherwise bfloat16 on CPUs that have it
    }
    request = core.compile_model(core.read_model(graph), "CPU", options).create_infer_request()

    def compute(images: Floats) -> Floats:
        outputs: Floats = request.infer([images])[0]
        return outputs

    return compute


def _onnxruntime(graph: bytes, threads: int) -> Callable[[Floats], Floats]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def compute(images: Floats) -> Floats:
        outputs: Floats = session.run(None, {IMAGES: images})[0]
        return outputs

    return compute


def fold_norms(layers: nn.Module, shape: Sequence[int]) -> nn.Module:
    """Return a copy of layers in evaluation mode with batch normalisation folded into the convolutions before it.

    If anything else reads the output of such a convolution, the layers are returned unchanged.
    """
    folded, images = copy.deepcopy(layers), torch.rand(1, *shape, generator=torch.Generator().manual_seed(0))
    images = images.to(next(layers.parameters(), images).device)
    for convolution, name in _followed_by_norms(folded, images):
        fused = fuse_conv_bn_eval(convolution, folded.get_submodule(name))  # type: ignore[arg-type]
        convolution.weight, convolution.bias = fused.weight, fused.bias
        folded.set_submodule(name, nn.Identity())
    expected = layers(images)
    is_same = torch.allclose(folded(images), expected, rtol=TOLERANCE, atol=TOLERANCE * float(expected.abs().max()))
    return folded if is_same else layers


def _followed_by_norms(layers: nn.Module, images: Tensor) -> list[tuple[nn.Conv2d, str]]:
    """Return the convolutions whose output is the input of a norm, and the name of that norm."""
    outputs: list[tuple[Tensor, nn.Conv2d]] = []
    found: list[tuple[nn.Conv2d, str]] = []

    def at_convolution(part: nn.Conv2d, _inputs: Any, output: Tensor) -> None:
        outputs.append((output, part))

    def at_norm(name: str, _part: nn.Module, inputs: tuple[Tensor]) -> None:
        found.extend((part, name) for output, part in outputs if output is inputs[0])

    hooks = [
        part.register_forward_hook(at_convolution)
        if isinstance(part, nn.Conv2d)
        else part.register_forward_pre_hook(partial(at_norm, name))
        for name, part in layers.named_modules()
        if isinstance(part, nn.Conv2d | nn.BatchNorm2d)
    ]
    layers(images)
    for hook in hooks:
        hook.remove()
    return found
