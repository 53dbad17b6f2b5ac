"""A program as an OpenVINO model: ``model.xml`` and ``model.bin`` in a folder.

Shapes: N photos, H and W pixels, K classes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semco.errors import UserError
from semco.export.onnx_graph import quiet, trace
from semco.export.program import Program
from semco.predict.onnx.engine import METADATA
from semco.predict.onnx.trial import PHOTOS

MODEL = "model.xml"
# By default OpenVINO computes in bfloat16 on processors that have it, which is less exact.
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def write_openvino(folder: Path, program: Program) -> None:
    """Write the model; its metadata hold class names and groups as in ONNX files."""
    if find_spec("openvino") is None:
        raise UserError("export to OpenVINO needs openvino: pip install 'semco[openvino]'.")
    import openvino

    with quiet():
        model: Any = openvino.convert_model(trace(program))
    model.inputs[0].get_tensor().set_names({PHOTOS})
    for output, name in zip(model.outputs, program.output_names, strict=True):
        output.get_tensor().set_names({name})
    model.set_rt_info(json.dumps({**asdict(program.about), "groups": program.about.groups}), [METADATA])
    openvino.save_model(model, folder / MODEL, compress_to_fp16=False)


def openvino_probabilities(folder: Path, photos: Sequence[NDArray[np.uint8]]) -> list[NDArray[np.float32]]:
    """Return the probabilities (N, K) of each batch of photos (N, H, W, 3)."""
    import openvino

    compiled: Any = openvino.Core().compile_model(folder / MODEL, "CPU", EXACT)
    return [compiled(batch)[0].copy() for batch in photos]
