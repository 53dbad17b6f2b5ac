"""The formats that `semco export` writes: how each is written, and how the written model predicts.

Shapes: N images, C channels, H and W pixels, K classes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.errors import UserError
from semco.evaluation.model_file import SavedModel
from semco.export.hf_folder import CARD_FIELDS, hf_probabilities, write_hf
from semco.export.onnx_graph import complete_graph, quiet, trace, write_onnx, write_torch
from semco.export.program import Program
from semco.files import exists, write_text
from semco.predict.onnx.engine import METADATA, OnnxEngine
from semco.predict.onnx.trial import PHOTOS

XML = "model.xml"
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
    openvino.save_model(model, folder / XML, compress_to_fp16=False)


def openvino_probabilities(folder: Path, photos: Iterable[NDArray[np.uint8]]) -> list[NDArray[np.float32]]:
    """Return the probabilities (N, K) of each batch of photos (N, H, W, 3)."""
    import openvino

    compiled: Any = openvino.Core().compile_model(folder / XML, "CPU", EXACT)
    return [compiled(batch)[0].copy() for batch in photos]


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


FormatName = Literal["onnx", "torch", "openvino", "triton", "hf"]
Photos = Iterable[NDArray[np.uint8]]  # batches (N, H, W, 3)
Probabilities = list[NDArray[np.float32]]  # batches (N, K)


@dataclass(frozen=True)
class Format:
    """One format."""

    name: FormatName
    place: str
    """Where it is written by default, in the folder of exports of a run; a name without an ending is a folder."""
    write: Callable[[Path, Program, SavedModel, int], None]
    """Writes a program to a path; the number is how many class names the output has."""
    probabilities: Callable[[Path, Photos], Probabilities]
    """Returns what the written model predicts."""
    card: str = "MODEL_CARD.md"
    """The model card in a folder."""
    card_fields: str = ""

    @property
    def is_folder(self) -> bool:
        return not Path(self.place).suffix

    @property
    def is_onnx(self) -> bool:
        return self.name in ("onnx", "triton")

    def check(self, target: Path) -> None:
        """Refuse a path that this format cannot be written to."""
        if not self.is_folder and target.suffix != Path(self.place).suffix:
            raise UserError(f"the format {self.name} is a file {Path(self.place).suffix}, not {target.name!r}.")
        if self.is_folder and target.suffix in (".onnx", ".pt2", ".xml", ".pbtxt"):
            raise UserError(f"the format {self.name} is a folder of several files: give its name, not {target.name!r}.")
        if self.is_folder and exists(target) and not (target.is_dir() and not any(target.iterdir())):
            raise UserError(f"{target} exists; remove it, or choose another folder.")


def format_of(file: Path | None) -> FormatName:
    """Return the format for the extension of a file; ONNX if no file is given."""
    suffix = ".onnx" if file is None else file.suffix
    if suffix not in (".onnx", ".pt2"):
        raise UserError(
            f"models are exported as .onnx or .pt2 (torch.export), not as {str(file)!r}, unless another format is "
            f"asked for; the formats are {', '.join(get_args(FormatName))}."
        )
    return "onnx" if suffix == ".onnx" else "torch"


def photos_of(images: Tensor) -> NDArray[np.uint8]:
    """Return images (N, C, H, W) as photos (N, H, W, 3)."""
    photos: NDArray[np.uint8] = images.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).contiguous().numpy()
    return photos


def _onnx_probabilities(file: Path, photos: Photos) -> Probabilities:
    engine = OnnxEngine(file)
    return [engine.score_photos(batch).chosen for batch in photos]


def _torch_probabilities(file: Path, photos: Photos) -> Probabilities:
    program = torch.export.load(io.BytesIO(file.read_bytes())).module()
    with torch.inference_mode():
        return [program(torch.from_numpy(batch))[0].numpy() for batch in photos]


FORMATS: dict[FormatName, Format] = {
    each.name: each
    for each in (
        Format(
            "onnx",
            "model.onnx",
            lambda file, program, model, top: write_onnx(file, complete_graph(program, model, top)),
            _onnx_probabilities,
        ),
        Format(
            "torch",
            "model.pt2",
            lambda file, program, _model, _top: write_torch(file, trace(program), program.about),
            _torch_probabilities,
        ),
        Format(
            "openvino",
            "openvino",
            lambda folder, program, _model, _top: write_openvino(folder, program),
            openvino_probabilities,
        ),
        Format(
            "triton",
            "triton/semco",
            lambda folder, program, model, top: write_triton(folder, complete_graph(program, model, top)),
            lambda folder, photos: _onnx_probabilities(folder / MODEL, photos),
        ),
        Format(
            "hf",
            "hf",
            lambda folder, program, model, _top: write_hf(folder, program, model),
            hf_probabilities,
            "README.md",
            CARD_FIELDS,
        ),
    )
}
