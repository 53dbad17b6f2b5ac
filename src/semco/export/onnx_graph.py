"""A program as an ONNX graph, with the names of the most probable classes as further outputs.

Shapes: N photos, H and W pixels, K classes, k classes that are named.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from semco.errors import UserError
from semco.evaluation.model_file import WEIGHTS, SavedModel
from semco.export.program import Program
from semco.predict.engine import About
from semco.predict.onnx.engine import CHOSEN, EXTRA, METADATA
from semco.predict.onnx.trial import PHOTOS

OPSET = 20
# Sides of photos, and photos per batch, that an exported program accepts.
MOST_PHOTOS, MOST_PIXELS_PER_SIDE = 65536, 65536
NEEDED = ("onnx", "onnxscript", "onnxruntime")


def trace(program: Program) -> torch.export.ExportedProgram:
    """Return the program recorded by `torch.export`, for any number of photos of any height and width."""
    batch, height, width = (
        torch.export.Dim(name, min=1, max=most)
        for name, most in (
            ("batch", MOST_PHOTOS),
            ("height", MOST_PIXELS_PER_SIDE),
            ("width", MOST_PIXELS_PER_SIDE),
        )
    )
    with quiet(), torch.no_grad():
        return torch.export.export(program, (program.example(),), dynamic_shapes=({0: batch, 1: height, 2: width},))


def to_onnx(program: Program) -> Any:
    """Return the program as an ONNX model."""
    check_installed()
    traced = trace(program)
    with quiet(), torch.no_grad():
        exported = torch.onnx.export(
            traced,
            (program.example(),),
            input_names=[PHOTOS],
            output_names=program.output_names,
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert exported is not None
    return exported.model_proto


def complete_graph(program: Program, model: SavedModel, top: int) -> Any:
    """Return the program as an ONNX model with names of classes as outputs and a description."""
    graph = to_onnx(program)
    add_names(graph, program.about, top)
    described = model.description
    describe(graph, program.about, described.checksums.get(WEIGHTS, ""), {"weights_from": described.provenance})
    return graph


def check_installed() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(f"export to ONNX needs {', '.join(missing)}: pip install '{EXTRA}'.")


def add_names(model: Any, about: About, top: int) -> None:
    """Add the outputs ``top_names`` (N, k) and ``top_probabilities`` (N, k) to a graph."""
    from onnx import TensorProto, helper

    graph, k = model.graph, min(top, len(about.class_names))
    names = [name.encode() for name in about.class_names]
    strings: Any = names  # the signature of make_tensor does not know strings
    graph.initializer.append(helper.make_tensor("class_names", TensorProto.STRING, [len(names)], strings))
    graph.initializer.append(helper.make_tensor("top_k", TensorProto.INT64, [1], [k]))
    graph.node.append(helper.make_node("TopK", [CHOSEN, "top_k"], ["top_probabilities", "top_ids"], "top"))
    graph.node.append(helper.make_node("Gather", ["class_names", "top_ids"], ["top_names"], "names"))
    batch = graph.input[0].type.tensor_type.shape.dim[0].dim_param or "batch"
    graph.output.append(helper.make_tensor_value_info("top_names", TensorProto.STRING, [batch, k]))
    graph.output.append(helper.make_tensor_value_info("top_probabilities", TensorProto.FLOAT, [batch, k]))


def describe(model: Any, about: About, weights: str, more: dict[str, Any]) -> None:
    """Add the description of the model: classes, groups, image size, heads, and where it comes from."""
    from onnx import helper

    model.producer_name = "semco"
    described = {
        METADATA: json.dumps({**asdict(about), "weights": weights}),
        "class_names": json.dumps(about.class_names),
        "groups": json.dumps(about.groups),
        "thresholds": json.dumps([asdict(each) for each in about.thresholds]),
        **{name: str(value) for name, value in more.items()},
    }
    helper.set_model_props(model, described)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress messages that the exporter prints for its developers."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir", "")]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def write_torch(file: Path, traced: torch.export.ExportedProgram, about: About) -> None:
    """Write a program for `torch.export.load`; class names and groups are in its extra file ``semco.json``."""
    with quiet():
        torch.export.save(traced, file, extra_files={"semco.json": json.dumps(asdict(about))})


def write_onnx(file: Path, graph: Any) -> None:
    """Write an ONNX model."""
    file.write_bytes(graph.SerializeToString())
