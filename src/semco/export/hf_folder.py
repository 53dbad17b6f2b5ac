"""A folder that ``transformers.pipeline("image-classification", model=FOLDER)`` opens.

Where the library has a class for the network, it is used. Other networks come with code of their own
(``modeling_semco.py``, for ``trust_remote_code=True``), which needs torch, Pillow and transformers, but not SemCo.
Weights are safetensors; nothing is pickled.

Shapes: N photos, H and W pixels, K classes.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable, Mapping
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.fx.graph import CodeGen

from semco.errors import UserError
from semco.evaluation.model_file import ModelDescription, SavedModel
from semco.evaluation.probabilities import Head
from semco.export.onnx_graph import quiet, trace
from semco.export.program import Program
from semco.files import atomic_path, write_json, write_text
from semco.models.hf import FAMILIES, HfBackbone, quiet_library

HEAD = "def forward(self, photos):"


def generate_code(traced: torch.export.ExportedProgram) -> tuple[str, dict[str, Tensor]]:
    """Return the source of ``program(self, photos)``, and the tensors that it reads as attributes of ``self``.

    It returns the first output of the program: the probabilities of the head that predicts.
    """
    module = traced.module(check_guards=False)
    graph = module.graph
    (output,) = (node for node in graph.nodes if node.op == "output")
    output.args = (output.args[0][0],)
    for node in list(graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:  # on the device of the export
            graph.erase_node(node)
    graph.set_codegen(CodeGen())  # arguments and result are plain tensors
    graph.eliminate_dead_code()
    tensors: dict[str, Tensor] = {}
    for node in graph.nodes:
        if node.op == "get_attr":
            name = f"tensor_{len(tensors)}"
            value: Any = reduce(getattr, node.target.split("."), module)
            tensors[name], node.target = value, name
    source = graph.python_code("self").src.strip()
    assert source.startswith(HEAD), source[:200]
    source = source.removeprefix(HEAD).replace("device(type='cpu')", "device")
    return f"def program(self, photos):\n    device = photos.device{source}", tensors


def native_classifier(model: SavedModel, head: Head) -> Any | None:
    """Return the classifier with the weights of the model; None if the library has no class that answers the same.

    The one-hot head must read the features of the backbone without changes, and the images must have the size that
    the library's classifier was made for, unless it accepts any size.
    """
    import transformers

    network, described = model.network, model.description
    backbone, size = network.backbone, max(described.image_size)
    parts = [name for name, _ in network.named_children()]  # a further one changes the features
    if not isinstance(backbone, HfBackbone) or parts != ["backbone", "heads"]:
        return None
    values = dict(backbone.architecture["config"])
    kind = values.pop("model_type")
    family = FAMILIES[kind]
    made = getattr(transformers, f"{family.model.removesuffix('Model')}ForImageClassification", None)
    has_size = not family.embed or values["image_size"] == size
    if made is None or not has_size or head != "one_hot" or described.channels != 3:
        return None
    config = transformers.AutoConfig.for_model(kind, **values, **label_fields(described.class_names))
    native = made(config).eval()
    HfBackbone(native.base_model, size).load_state_dict(backbone.state_dict())  # it is made of the same layers
    _copy_linear(network.heads["one_hot"], native.classifier)
    return native


def label_fields(class_names: tuple[str, ...]) -> dict[str, dict[Any, Any]]:
    """Return the class names as the fields of a configuration."""
    names = dict(enumerate(class_names))
    return {"id2label": names, "label2id": {name: class_id for class_id, name in names.items()}}


@torch.no_grad()
def _copy_linear(head: nn.Module, classifier: nn.Module) -> None:
    """Copy a linear head. DINOv2's classifier also reads the mean of the patches, whose weights are set to 0."""
    assert isinstance(head, nn.Linear)
    (linear,) = (layer for layer in classifier.modules() if isinstance(layer, nn.Linear))
    linear.weight.zero_()[:, : head.in_features] = head.weight
    linear.bias.copy_(head.bias)


CODE, CLASS, PROCESSOR = "modeling_semco", "SemcoForImageClassification", "SemcoImageProcessor"
CARD_FIELDS = "---\nlibrary_name: transformers\npipeline_tag: image-classification\n---\n\n"
MODELING = '''"""An image classifier that was written by 'semco export'.

`program` is the network as `torch.export` has recorded it, from photos to probabilities.
"""

import numpy as np
import torch
from PIL import Image
from torch import inf, nan  # of which `program` may use some
from transformers import BatchFeature, PretrainedConfig, PreTrainedModel
from transformers.image_processing_utils import BaseImageProcessor
from transformers.modeling_outputs import ImageClassifierOutput


class SemcoConfig(PretrainedConfig):
    model_type = "semco"


class SemcoImageProcessor(BaseImageProcessor):
    model_input_names = ["pixel_values"]

    def __init__(self, side=224, **others):
        super().__init__(**others)
        self.side = side

    def __call__(self, images, return_tensors=None, **_):
        """Return the centre squares (N, side, side, 3) of photos."""
        photos = images if isinstance(images, (list, tuple)) else [images]
        squares = np.stack([self.centre_square(photo) for photo in photos])
        return BatchFeature({"pixel_values": squares}, tensor_type=return_tensors)

    def centre_square(self, photo):
        image = photo if isinstance(photo, Image.Image) else Image.fromarray(np.asarray(photo))
        shorter = min(image.size)
        left, top = (image.width - shorter) / 2, (image.height - shorter) / 2
        box = (left, top, left + shorter, top + shorter)
        return np.asarray(image.convert("RGB").resize((self.side, self.side), Image.Resampling.BICUBIC, box=box))


class SemcoForImageClassification(PreTrainedModel):
    config_class = SemcoConfig
    main_input_name = "pixel_values"

    def __init__(self, config):
        super().__init__(config)
        for name, (dtype, shape) in TENSORS.items():
            tensor = torch.empty(shape, dtype=dtype)
            self.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
        self.post_init()

    def forward(self, pixel_values, **_):
        """Return logits (N, K), which are logarithms of probabilities, of photos (N, H, W, 3) in uint8."""
        probabilities = program(self, pixel_values)
        return ImageClassifierOutput(logits=probabilities.clamp_min(torch.finfo(torch.float32).tiny).log())


'''


def write_hf(folder: Path, program: Program, model: SavedModel) -> None:
    """Write configuration, weights, preprocessor and, if the library has no class for the network, code."""
    if find_spec("transformers") is None:
        raise UserError("export to transformers needs that library: pip install 'semco[hf]'.")
    with quiet():
        native = native_classifier(model, program.about.head)
    if native is not None:
        config, tensors = json.loads(native.config.to_json_string()), native.state_dict()
        config["architectures"] = [type(native).__name__]
        processor = native_processor(model.description)
    else:
        source, tensors = generate_code(trace(program))
        shapes = "".join(f"    {name!r}: ({each.dtype}, {tuple(each.shape)}),\n" for name, each in tensors.items())
        write_text(folder / f"{CODE}.py", f"{MODELING}TENSORS = {{\n{shapes}}}\n\n\n{source}\n")
        config, processor = _own_config(program.about.class_names), _own_processor(model.description)
    write_json(folder / "config.json", config | {"dtype": "float32", "problem_type": "single_label_classification"})
    write_json(folder / "preprocessor_config.json", processor)
    _save_tensors(folder / "model.safetensors", tensors)


def _own_config(class_names: tuple[str, ...]) -> dict[str, Any]:
    code = {"AutoConfig": f"{CODE}.SemcoConfig", "AutoModelForImageClassification": f"{CODE}.{CLASS}"}
    return {"model_type": "semco", "architectures": [CLASS], "auto_map": code, **label_fields(class_names)}


def _own_processor(description: ModelDescription) -> dict[str, Any]:
    code = {"AutoImageProcessor": f"{CODE}.{PROCESSOR}"}
    return {"image_processor_type": PROCESSOR, "auto_map": code, "side": max(description.image_size)}


def native_processor(description: ModelDescription) -> dict[str, Any]:
    """Return the configuration of Perceiver's preprocessor, which, like ours, crops the centre square, then resizes.

    NOTE: at the border of the square our filter also reads the pixels outside of it.
    """
    side = max(description.image_size)
    return {
        "image_processor_type": "PerceiverImageProcessor",
        "do_center_crop": True,
        "crop_size": {"height": side, "width": side},
        "do_resize": True,
        "size": {"height": side, "width": side},
        "resample": 3,  # bicubic
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(description.mean),
        "image_std": list(description.std),
    }


def _save_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    with atomic_path(file) as temporary:
        stored = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
        save_file(stored, temporary, {"format": "pt"})


def hf_probabilities(folder: Path, photos: Iterable[NDArray[np.uint8]]) -> list[NDArray[np.float32]]:
    """Return the probabilities (N, K) of each batch of photos (N, H, W, 3)."""
    import transformers

    with quiet(), quiet_library(transformers):
        of_model, of_processor = _classes(folder)
        model, processor = of_model.from_pretrained(folder).eval(), of_processor.from_pretrained(folder)
    with torch.inference_mode():
        logits = (model(**processor(images=list(batch), return_tensors="pt")).logits for batch in photos)
        return [each.softmax(dim=1).numpy() for each in logits]


def _classes(folder: Path) -> tuple[Any, Any]:
    """Return the classes of model and processor; the library would copy code into the user's cache first."""
    import transformers

    file = folder / f"{CODE}.py"
    if not file.is_file():
        return transformers.AutoModelForImageClassification, transformers.AutoImageProcessor
    found = runpy.run_path(str(file), run_name=CODE)  # leaves no __pycache__
    return found[CLASS], found[PROCESSOR]
