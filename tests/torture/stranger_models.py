"""ONNX files as a stranger might send them: small graphs with the metadata of an exported model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = ("shirt", "coat", "bag")
ABOUT: dict[str, Any] = {
    "class_names": CLASSES,
    "group_ids": [0, 0, 1],
    "image_size": [8, 8],
    "channels": 3,
    "head": "one_hot",
    "heads": ["one_hot"],
    "weights": "",
}


def constant(name: str, value: Any) -> Any:
    return numpy_helper.from_array(np.asarray(value), name)


def write_model(
    file: Path, classes: int = 3, nodes: tuple[Any, ...] = (), constants: tuple[Any, ...] = (), **about: Any
) -> Path:
    """Write a model that gives every class the same probability, after it has computed other ``nodes``.

    What they compute is called ``more``, a number that is added to the probabilities.
    """
    graph = helper.make_graph(
        [
            helper.make_node("Shape", ["photos"], ["shape"]),
            helper.make_node("Gather", ["shape", "zero"], ["batch"]),
            helper.make_node("Concat", ["batch", "classes"], ["wanted"], axis=0),
            helper.make_node("Expand", ["share", "wanted"], ["shares"]),
            *(nodes or [helper.make_node("Identity", ["nothing"], ["more"])]),
            helper.make_node("Add", ["shares", "more"], ["probabilities"]),
        ],
        "stranger",
        [helper.make_tensor_value_info("photos", TensorProto.UINT8, ["n", "h", "w", 3])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, None)],
        [
            constant("zero", np.array([0])),
            constant("classes", np.array([classes])),
            constant("share", np.float32(1 / classes)),
            constant("nothing", np.float32(0)),
            *constants,
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    helper.set_model_props(model, {"semco": json.dumps(ABOUT | about)})
    onnx.save(model, file)
    return file


def endless_loop() -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Nodes and constants of a loop that goes on as long as a number is 0, which it always is."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["goes"]), helper.make_node("Sin", ["value"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value", TensorProto.FLOAT, []),
        ],
        [
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, []),
        ],
    )
    return (helper.make_node("Loop", ["", "yes", "nothing"], ["more"], body=body),), (constant("yes", np.array(True)),)


def much_memory() -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Nodes and constants that add 40 GB of ones."""
    ones = helper.make_node("ConstantOfShape", ["side"], ["ones"])
    return (ones, helper.make_node("ReduceSum", ["ones"], ["more"], keepdims=0)), (constant("side", [10**5, 10**5]),)


def other_rank() -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Nodes and constants that make the probabilities a tensor of three dimensions."""
    return (helper.make_node("Identity", ["cube"], ["more"]),), (constant("cube", np.zeros((2, 1, 1), np.float32)),)
