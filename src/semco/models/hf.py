"""Backbones of the `transformers` library (the ``hf`` extra), from a local folder or by their name on the hub.

A model is taken apart into layers that turn one tensor into the next. Only safetensors weights are read, and no code of
a model is run. What would make features random (dropout, jittered positions) is turned off.
Shapes: N images, C channels, H and W pixels, T tokens, F features.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from semco.errors import UserError, brief
from semco.files import read_text
from semco.models.backbone import Backbone, MeanPool, as_colour
from semco.models.normalisation import own_norms

PREFIX = "hf:"
NAME_ON_HUB = r"\w[\w.-]*(/\w[\w.-]*)?"


@dataclass(frozen=True)
class Family:
    """Where a family of models keeps its parts; a path is a chain of attributes, empty if there is no such part."""

    model: str  # the class in transformers
    embeddings: str
    blocks: str
    last: str  # a last block of another kind
    norm: str
    pool: Callable[[nn.Module], nn.Module]
    embed: Mapping[str, Any]  # arguments of the embeddings besides the images
    without_pooler: bool = False  # whether the class has a trained layer after the pooling, which is left out


class Embed(nn.Module):
    """Images to the input of the first block; grey images are repeated to three channels."""

    def __init__(self, embeddings: nn.Module, arguments: Mapping[str, Any], only_size: int | None) -> None:
        super().__init__()
        self.embeddings, self.arguments, self.only_size = embeddings, dict(arguments), only_size

    def forward(self, images: Tensor) -> Tensor:
        if self.only_size is not None and tuple(images.shape[2:]) != (self.only_size, self.only_size):
            height, width = images.shape[2:]
            raise UserError(
                f"this backbone was built for square images of {self.only_size} pixels, not for {height} x {width}: "
                f"set data.image_size={self.only_size}."
            )
        return _first(self.embeddings(as_colour(images), **self.arguments))


class BlockOf(nn.Module):
    """A block of a model with the arguments that it needs besides its input."""

    def __init__(self, block: nn.Module, *arguments: Any) -> None:
        super().__init__()
        self.block, self.arguments = block, arguments

    def forward(self, values: Tensor) -> Tensor:
        return _first(self.block(values, *self.arguments))


class RotaryBlock(nn.Module):
    """A block whose attention rotates queries and keys by their position in square images of ``size`` pixels."""

    def __init__(self, block: nn.Module, rope: nn.Module, size: int) -> None:
        super().__init__()
        self.block, self.rope, self.size = block, rope, size

    def forward(self, tokens: Tensor) -> Tensor:
        images = tokens.new_empty(1).expand(1, 1, self.size, self.size)  # only its shape is used
        return _first(self.block(tokens, position_embeddings=self.rope(images)))


class MeanThenNorm(nn.Module):
    """(N, F, H, W) -> (N, F): the norm of the mean over the pixels."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, maps: Tensor) -> Tensor:
        features: Tensor = self.norm(maps.mean(dim=(2, 3)))
        return features


class ClassToken(nn.Module):
    """(N, T, F) -> (N, F): the norm of the first token."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, tokens: Tensor) -> Tensor:
        features: Tensor = self.norm(tokens[:, 0])
        return features


class NormThenMean(nn.Module):
    """(N, T, F) -> (N, F): the mean over the normalised tokens."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, tokens: Tensor) -> Tensor:
        features: Tensor = self.norm(tokens).mean(dim=1)
        return features


def _plain_mean(norm: nn.Module) -> nn.Module:
    assert isinstance(norm, nn.Identity), "a family whose norm follows the mean uses MeanThenNorm"
    return MeanPool()


def _first(output: Any) -> Tensor:
    """Return the tensor of an output, which may be a tuple with the tensor first."""
    tensor: Tensor = output[0] if isinstance(output, tuple) else output
    return tensor


_INTERPOLATE = {"interpolate_pos_encoding": True}
# fmt: off
FAMILIES = {
    "resnet": Family("ResNetModel", "embedder", "encoder.stages", "", "", _plain_mean, {}),
    "mobilenet_v1": Family("MobileNetV1Model", "conv_stem", "layer", "", "", _plain_mean, {}),
    "mobilenet_v2": Family("MobileNetV2Model", "conv_stem", "layer", "conv_1x1", "", _plain_mean, {}),
    "convnext": Family("ConvNextModel", "embeddings", "encoder.stages", "", "layernorm", MeanThenNorm, {}),
    "convnextv2": Family("ConvNextV2Model", "embeddings", "encoder.stages", "", "layernorm", MeanThenNorm, {}),
    "dinov3_convnext": Family("DINOv3ConvNextModel", "", "model.stages", "", "layer_norm", MeanThenNorm, {}),
    "vit": Family("ViTModel", "embeddings", "layers", "", "layernorm", ClassToken, _INTERPOLATE, without_pooler=True),
    "dinov2": Family("Dinov2Model", "embeddings", "encoder.layer", "", "layernorm", ClassToken, {}),
    "dinov2_with_registers": Family(
        "Dinov2WithRegistersModel", "embeddings", "encoder.layer", "", "layernorm", ClassToken, {}
    ),
    "dinov3_vit": Family("DINOv3ViTModel", "embeddings", "model.layer", "", "norm", ClassToken, {}),
    "swin": Family("SwinModel", "embeddings", "encoder.layers", "", "layernorm", NormThenMean, _INTERPOLATE),
    "swinv2": Family("Swinv2Model", "embeddings", "encoder.layers", "", "layernorm", NormThenMean, _INTERPOLATE),
}
# fmt: on
# Families whose layers depend on the size of the images, which have to be square.
FIXED_SIZE = ("dinov3_vit", "swin", "swinv2")


class HfBackbone(Backbone):
    """(N, C, H, W) -> (N, F): the parts of a model of `transformers`, for images of ``image_size`` pixels."""

    def __init__(self, model: Any, image_size: int) -> None:
        super().__init__()
        kind = model.config.model_type
        family = FAMILIES[kind]
        own_norms(model)
        for name, parameter in model.named_parameters():
            if name.endswith("mask_token"):  # for pre-training with masked patches
                parameter.requires_grad_(False)
        embeddings, blocks, last, norm = (
            _part(model, path) for path in (family.embeddings, family.blocks, family.last, family.norm)
        )
        embed = Embed(embeddings, family.embed, image_size if kind in FIXED_SIZE else None)
        middle = list(map(_block_maker(model, image_size), range(len(blocks)), blocks))
        ends = [BlockOf(last)] if family.last else []
        self.parts = nn.ModuleList([embed, *middle, *ends, family.pool(norm)])
        self.first_top_layer = 1 + len(middle) - max(1, len(middle) // 4)
        self.out_features = _out_features(self)

    def layers(self) -> list[nn.Module]:
        return list(self.parts)


def _part(model: Any, path: str) -> Any:
    """Return a part of a model, or an identity if its family has no such part."""
    try:
        return attrgetter(path)(model) if path else nn.Identity()
    except AttributeError:
        kind = type(model).__name__
        raise UserError(f"this version of transformers has no {path} in its {kind}; update transformers.") from None


def _block_maker(model: Any, image_size: int) -> Callable[[int, nn.Module], nn.Module]:
    """Return the function that makes a layer of the i-th block."""
    config = model.config
    if config.model_type == "dinov3_vit":
        return lambda _, block: RotaryBlock(block, model.rope_embeddings, image_size)
    if config.model_type in ("swin", "swinv2"):
        return partial(_window_block, config, image_size)
    return lambda _, block: BlockOf(block)


def _window_block(config: Any, image_size: int, stage: int, block: nn.Module) -> nn.Module:
    """Return a stage of a Swin transformer with the side of its input, in patches; each stage halves it."""
    side = math.ceil(math.ceil(image_size / config.patch_size) / 2**stage)
    if config.model_type == "swin" and side < config.window_size:
        least = (config.window_size - 1) * 2 ** (len(config.depths) - 1) * config.patch_size + 1
        raise UserError(
            f"this Swin transformer has windows of {config.window_size} patches, too large for images of {image_size} "
            f"pixels: set data.image_size to {least} or more (its own size is {config.image_size})."
        )
    return BlockOf(block, (side, side))


def _out_features(backbone: HfBackbone) -> int:
    """Return F: the size of the last norm, or else the channels of the last convolution."""
    for part in reversed(list(backbone.modules())):
        if isinstance(part, nn.LayerNorm):
            return int(part.normalized_shape[0])
        if isinstance(part, nn.BatchNorm2d):
            return int(part.num_features)
    raise AssertionError("a backbone without a norm")


def build_hf(name: str, in_channels: int, image_size: int, *, pretrained: bool, saved: Mapping[str, Any]) -> HfBackbone:
    """Return the backbone of a folder or a name on the hub, ``pretrained`` or with initial weights.

    ``saved``: the architecture of a saved model, from which it is built without the folder, with initial weights; its
    weights follow. Empty: the folder or the hub is read. On torch's meta device no weights are read either.
    """
    transformers = _library()
    if not saved and not Path(name).is_dir() and not re.fullmatch(NAME_ON_HUB, name):
        raise UserError(f"there is no folder {brief(name)} with a transformers model for the backbone {PREFIX}...")
    with quiet_library(transformers), _explained(name):
        config = _read_config(transformers, name, saved)
        processor = saved["processor"] if saved else _processor(transformers, name)
        backbone_class = getattr(transformers, FAMILIES[config.model_type].model)
        on_meta = torch.empty(0).device.type == "meta"
        loads = pretrained and not saved and not on_meta
        make = _load_pretrained if loads else _initial_model
        backbone = HfBackbone(make(backbone_class, name, config).float().train(), image_size)
    backbone.architecture = {"config": _as_json(config), "processor": processor}
    if loads:
        backbone.provenance = _provenance(name, config)
    if pretrained:
        backbone.expect(processor["size"], tuple(processor["mean"]), tuple(processor["std"]), in_channels)
    return backbone


def _library() -> Any:
    try:
        import transformers
    except ImportError:
        raise UserError("a backbone hf:... needs the hf extra: pip install 'semco[hf]'.") from None
    return transformers


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn the errors of `transformers` about a model that cannot be read into one sentence."""
    from huggingface_hub import errors

    # Raised for a field of the wrong type; earlier versions have no such error.
    wrong_field = getattr(errors, "StrictDataclassError", ValueError)
    try:
        yield
    except UserError:
        raise
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
        raise _cannot_load(name, error) from None
    except (SafetensorError, wrong_field) as error:
        raise _cannot_load(name, error) from None


def _cannot_load(name: str, error: Exception) -> UserError:
    why = " ".join(str(error).split())[:200]
    return UserError(
        f"the backbone {PREFIX}{name} cannot be loaded ({why}); give the folder of a transformers model with "
        "config.json, preprocessor_config.json and model.safetensors, or the name of one on the hub while online."
    )


@contextmanager
def quiet_library(transformers: Any) -> Iterator[None]:
    """Keep `transformers` from writing progress bars and notes about heads that are left out."""
    log = transformers.utils.logging
    level, has_bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if has_bars:
            log.enable_progress_bar()


def _read_config(transformers: Any, name: str, saved: Mapping[str, Any]) -> Any:
    """Return the configuration of a model of a known family, without randomness in its layers."""
    if saved:
        values = dict(saved["config"])
        config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    else:
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
    if config.model_type not in FAMILIES:
        raise UserError(
            f"{PREFIX}{name} is a model of the family {brief(config.model_type)}, which is not known; "
            f"known: {', '.join(sorted(FAMILIES))}."
        )
    if config.num_channels != 3:
        raise UserError(f"{PREFIX}{name} reads images of {config.num_channels} channels; only 3 are supported.")
    for field, value in config.to_dict().items():
        if "drop" in field and isinstance(value, float):
            setattr(config, field, 0.0)
    config._attn_implementation = None  # a name of the hub would make the library load code from there
    for field in ("pos_embed_shift", "pos_embed_jitter", "pos_embed_rescale"):  # of DINOv3
        if hasattr(config, field):
            setattr(config, field, None)
    return config


def _as_json(config: Any) -> dict[str, Any]:
    """Return the fields of a configuration that describe the network, without the place of the model."""
    values = json.loads(config.to_json_string(use_diff=False))
    dropped = ("architectures", "id2label", "label2id", "dtype", "transformers_version")
    return {key: value for key, value in values.items() if key not in dropped and not key.startswith("_")}


def _processor(transformers: Any, name: str) -> dict[str, Any]:
    """Return the side in pixels, and the mean and std of pixels scaled to [0, 1], that the weights expect."""
    values, _ = transformers.ImageProcessingMixin.get_image_processor_dict(name)
    size = values.get("crop_size") if values.get("do_center_crop") else None
    size = size or values.get("size")
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge")
    is_normalised = values.get("do_normalize", True)
    mean, std = (values["image_mean"], values["image_std"]) if is_normalised else ([0.0] * 3, [1.0] * 3)
    # Other factors than 1/255 are carried over into mean and std.
    factor = 255 * (values.get("rescale_factor", 1 / 255) if values.get("do_rescale", True) else 1)
    return {
        "size": None if size is None else int(size),
        "mean": [float(value) / factor for value in mean],
        "std": [float(value) / factor for value in std],
    }


def _initial_model(model: Any, _: str, config: Any) -> Any:
    family = FAMILIES[config.model_type]
    return model(config, add_pooling_layer=False) if family.without_pooler else model(config)


def _load_pretrained(model: Any, name: str, config: Any) -> Any:
    """Return the model with the weights of its safetensors file; nothing is left at its initial value."""
    family = FAMILIES[config.model_type]
    options = {"add_pooling_layer": False} if family.without_pooler else {}
    loaded, report = model.from_pretrained(
        name, config=config, use_safetensors=True, output_loading_info=True, **options
    )
    missing = sorted(key for key in report["missing_keys"] if not key.endswith("mask_token"))
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UserError(f"the weights of {PREFIX}{name} lack {', '.join(missing[:3])}{more}; restore its files.")
    for tensor in (*loaded.parameters(), *loaded.buffers()):
        tensor.data = tensor.data.clone()  # not in the memory of the file, which may change
    return loaded


def _provenance(name: str, config: Any) -> str:
    """Return where the weights come from; the licence is the one that the model card states."""
    card = Path(name) / "README.md"
    stated = re.search(r"^license:\s*(\S+)", read_text(card), re.MULTILINE) if card.is_file() else None
    licence = f"licence {stated[1]}" if stated else "licence: see its model card"
    commit = getattr(config, "_commit_hash", None)
    return f"weights of the transformers model {name}{f' at commit {commit}' if commit else ''}, {licence}"
