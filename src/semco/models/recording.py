"""Records the operations of layers during one forward pass as an ONNX graph, for other engines than torch.

Only the operations of convolutional networks are supported. torch's own exporter supports all of them, but it takes
longer than an EfficientNet-Lite0 needs for hundreds of photos.

Shapes: N images, C channels, H and W pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Names of the input and the output of a graph.
IMAGES, OUTPUTS = "images", "outputs"
OPSET, IR_VERSION = 18, 8

aten = torch.ops.aten
Call = tuple[str, list[Tensor], dict[str, Any]]  # an operation of ONNX, its inputs, its attributes


class UnknownOperationError(Exception):
    """The layers use an operation that cannot be recorded; the argument is its name."""


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _output_padding: Sequence[int],
    groups: int,
) -> Call:
    if transposed:
        raise UnknownOperationError("transposed convolution")
    inputs = [x, weight] if bias is None else [x, weight, bias]
    return "Conv", inputs, {"strides": stride, "pads": [*padding] * 2, "dilations": dilation, "group": groups}


def _batch_norm(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, training: bool, _momentum: float, eps: float
) -> Call:
    if training:
        raise UnknownOperationError("batch normalisation by the statistics of a batch")
    return "BatchNormalization", [x, weight, bias, mean, var], {"epsilon": eps}


def _pad(x: Tensor, padding: Sequence[int], value: float = 0.0) -> Call:
    """``padding``: before and after the last dimension, before and after the one before it, and so on."""
    rest = [0] * (x.dim() - len(padding) // 2)
    sides = [*rest, *padding[::2][::-1], *rest, *padding[1::2][::-1]]
    return "Pad", [x, torch.tensor(sides), torch.tensor(float(value))], {}


def _clone(x: Tensor, *, memory_format: torch.memory_format | None = None) -> Call:  # noqa: ARG001, of torch only
    return "Identity", [x], {}


def _add(x: Tensor, y: Tensor) -> Call:
    return "Add", [x, y], {}


def _relu(x: Tensor) -> Call:
    return "Relu", [x], {}


def _leaky_relu(x: Tensor, slope: float) -> Call:
    return "LeakyRelu", [x], {"alpha": slope}


def _clip(x: Tensor, low: float, high: float) -> Call:
    return "Clip", [x, torch.tensor(float(low)), torch.tensor(float(high))], {}


def _mean(x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Call:
    return "ReduceMean", [x, torch.tensor(dims)], {"keepdims": int(keepdim)}


def _max_pool(x: Tensor, kernel: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0, 0)) -> Call:
    return "MaxPool", [x], {"kernel_shape": kernel, "strides": stride or kernel, "pads": [*padding] * 2}


def _adaptive_mean_pool(x: Tensor, size: Sequence[int]) -> Call:
    if x.shape[2] % size[0] or x.shape[3] % size[1]:
        raise UnknownOperationError("adaptive pooling to unequal parts")
    kernel = [x.shape[2] // size[0], x.shape[3] // size[1]]
    return "AveragePool", [x], {"kernel_shape": kernel, "strides": kernel}


def _expand(x: Tensor, size: Sequence[int]) -> Call:
    return "Expand", [x, torch.tensor([max(1, side) for side in size])], {}  # -1 keeps the size, as 1 does in ONNX


def _reshape(x: Tensor, size: Sequence[int]) -> Call:
    if size[0] != len(x):
        raise UnknownOperationError("a change of the number of images")
    return "Reshape", [x, torch.tensor([0, *size[1:]])], {}  # 0 keeps the size


_CALLS: dict[Any, Callable[..., Call]] = {
    aten.convolution.default: _convolution,
    aten.native_batch_norm.default: _batch_norm,
    aten.constant_pad_nd.default: _pad,
    aten.add.Tensor: _add,
    aten.relu.default: _relu,
    aten.relu_.default: _relu,
    aten.leaky_relu.default: _leaky_relu,
    aten.leaky_relu_.default: _leaky_relu,
    aten.hardtanh.default: _clip,
    aten.hardtanh_.default: _clip,
    aten.mean.dim: _mean,
    aten.max_pool2d_with_indices.default: _max_pool,
    aten._adaptive_avg_pool2d.default: _adaptive_mean_pool,
    aten.expand.default: _expand,
    aten.view.default: _reshape,
    aten._unsafe_view.default: _reshape,
    aten.clone.default: _clone,
}


class _Recorder(TorchDispatchMode):
    """Records every operation whose result depends on the images as a node; all other tensors are constants."""

    def __init__(self, images: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nodes: list[tuple[str, list[str], str, dict[str, Any]]] = []
        self.constants: dict[int, tuple[str, Tensor]] = {}
        self._values = {id(images): (IMAGES, images)}  # keeps the tensors alive, so that their ids are not reused

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch imports its compiler, which takes a second

    def __torch_dispatch__(self, operation: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = self._call(operation, args, kwargs or {})
        result = operation(*args, **(kwargs or {}))
        if call is not None:
            value = result[0] if isinstance(result, tuple) else result
            name = f"value{len(self.nodes)}"
            self.nodes.append((*call[:1], [self.name_of(each) for each in call[1]], name, call[2]))
            self._values[id(value)] = name, value  # a tensor that was changed in place has a new name
        return result

    def _call(self, operation: Any, args: Any, kwargs: Any) -> Call | None:
        if not any(id(each) in self._values for each in tree_leaves((args, kwargs))):
            return None
        try:
            return _CALLS[operation](*args, **kwargs)
        except (KeyError, TypeError):  # TypeError: an argument that changes the operation
            raise UnknownOperationError(str(operation)) from None

    def name_of(self, tensor: Tensor) -> str:
        known = self._values.get(id(tensor))
        name, _ = known or self.constants.setdefault(id(tensor), (f"constant{len(self.constants)}", tensor))
        return name


def to_onnx(layers: nn.Module, shape: Sequence[int]) -> bytes:
    """Return layers in evaluation mode as an ONNX model for any number of images of a shape (C, H, W).

    Call it under `torch.no_grad`, not in inference mode, where operations have other names.
    """
    from onnx import TensorProto, helper, numpy_helper

    images = torch.zeros(2, *shape, device=next(layers.parameters()).device)
    with _Recorder(images) as recorder:
        outputs = layers(images)
    nodes = [helper.make_node(name, inputs, [output], **more) for name, inputs, output, more in recorder.nodes]
    nodes.append(helper.make_node("Identity", [recorder.name_of(outputs)], [OUTPUTS]))
    constants = [
        numpy_helper.from_array(tensor.contiguous().numpy(force=True), name)
        for name, tensor in recorder.constants.values()
    ]
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info(IMAGES, TensorProto.FLOAT, ["batch", *shape])],
        [helper.make_tensor_value_info(OUTPUTS, TensorProto.FLOAT, ["batch", *outputs.shape[1:]])],
        constants,
    )
    version = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, opset_imports=[version], ir_version=IR_VERSION, producer_name="semco")
    serialised: bytes = model.SerializeToString()
    return serialised
