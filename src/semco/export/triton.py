"""A folder for NVIDIA's Triton Inference Server: ``config.pbtxt`` and ``1/model.onnx``.

The folder is the model and has its name. The parent folder is the model repository.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from semco.export.onnx_graph import write_onnx
from semco.files import write_text

MODEL = Path("1") / "model.onnx"
# Types of ONNX tensors by their names in Triton.
TYPES = {"UINT8": "TYPE_UINT8", "FLOAT": "TYPE_FP32", "STRING": "TYPE_STRING"}


def write_triton(folder: Path, graph: Any) -> None:
    """Write an ONNX model and its description."""
    (folder / MODEL).parent.mkdir()
    write_onnx(folder / MODEL, graph)
    write_text(folder / "config.pbtxt", describe_graph(graph.graph))


def describe_graph(graph: Any) -> str:
    """Return the description of a graph whose first dimension is the number of photos."""
    # With a maximum of 0 the batch is a dimension like any other, as in the graph.
    lines = ['platform: "onnxruntime_onnx"', "max_batch_size: 0"]
    lines += [*_describe("input", graph.input), *_describe("output", graph.output)]
    return "\n".join(lines) + "\n"


def _describe(kind: str, tensors: Iterable[Any]) -> Iterable[str]:
    from onnx import TensorProto

    for each in tensors:
        of_tensor = each.type.tensor_type
        dims = ", ".join(str(dim.dim_value or -1) for dim in of_tensor.shape.dim)
        data_type = TYPES[TensorProto.DataType.Name(of_tensor.elem_type)]
        yield f'{kind} [ {{ name: "{each.name}" data_type: {data_type} dims: [ {dims} ] }} ]'
