"""Backbones of `transformers`: tiny models of every family, made and saved on the spot, against the library itself."""

from __future__ import annotations

import copy
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from semco.config import ModelConfig
from semco.errors import UserError
from semco.models import Backbone, build_backbone, inspect_backbone
from semco.models.hf import FAMILIES, HfBackbone
from semco.models.normalisation import WarmBatchNorm2d

transformers = pytest.importorskip("transformers")
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]
PROCESSOR = {
    "do_normalize": True,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "image_mean": MEAN,
    "image_std": STD,
    "size": {"height": 32, "width": 32},
}
STAGES: dict[str, Any] = {"hidden_sizes": [4, 6, 8, 12], "depths": [1, 2, 1, 1]}
TOKENS: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "image_size": 32,
    "patch_size": 8,
}
WINDOWS: dict[str, Any] = {
    "embed_dim": 8,
    "depths": [2, 2],
    "num_heads": [1, 2],
    "window_size": 4,
    "image_size": 32,
    "patch_size": 4,
    "drop_path_rate": 0.3,
}
# Family -> class of its configuration, fields.
TINY: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet": ("ResNetConfig", {**STAGES, "embedding_size": 4, "layer_type": "basic"}),
    "mobilenet_v1": ("MobileNetV1Config", {"depth_multiplier": 0.25, "image_size": 32}),
    "mobilenet_v2": ("MobileNetV2Config", {"depth_multiplier": 0.35, "image_size": 32}),
    "convnext": ("ConvNextConfig", STAGES),
    "convnextv2": ("ConvNextV2Config", STAGES),
    "dinov3_convnext": ("DINOv3ConvNextConfig", STAGES),
    "vit": ("ViTConfig", {**TOKENS, "hidden_dropout_prob": 0.1}),
    "dinov2": ("Dinov2Config", TOKENS),
    "dinov2_with_registers": ("Dinov2WithRegistersConfig", {**TOKENS, "num_register_tokens": 2}),
    "dinov3_vit": ("DINOv3ViTConfig", {**TOKENS, "num_register_tokens": 2}),
    "swin": ("SwinConfig", WINDOWS),
    "swinv2": ("Swinv2Config", WINDOWS),
}
every_family = pytest.mark.parametrize("family", FAMILIES)


def save_model(folder: Path, family: str, **fields: Any) -> nn.Module:
    """Put a tiny model with random weights, none of them at its initial constant, into a folder, and return it."""
    model, files = _model(family, **fields)
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return copy.deepcopy(model)  # some remember the size of their images


@cache
def _model(family: str, **fields: Any) -> tuple[nn.Module, dict[str, bytes]]:
    kind, values = TINY[family]
    torch.manual_seed(0)
    model: Any = getattr(transformers, FAMILIES[family].model)(getattr(transformers, kind)(**{**values, **fields}))
    for tensor in model.state_dict().values():
        if tensor.ndim == 4:
            nn.init.kaiming_normal_(tensor, mode="fan_in")
        elif tensor.is_floating_point():
            tensor.add_(0.05 * torch.rand_like(tensor))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        files = {file.name: file.read_bytes() for file in Path(folder).iterdir()}
    return model.eval(), files | {"preprocessor_config.json": json.dumps(PROCESSOR).encode()}


def config_of(folder: Path, **fields: Any) -> ModelConfig:
    return ModelConfig(backbone=f"hf:{folder}", **fields)


def library_features(model: nn.Module, family: str, images: Tensor) -> Tensor:
    """Return the pooled output of the library; of a ViT, the class token that its classifier reads."""
    options = {"interpolate_pos_encoding": True} if family in ("vit", "swin", "swinv2") else {}
    output = model(images, **options)
    pooled: Tensor = output.last_hidden_state[:, 0] if family == "vit" else output.pooler_output
    return pooled.flatten(1)


def test_every_family_has_a_tiny_model() -> None:
    assert set(TINY) == set(FAMILIES)


@every_family
@pytest.mark.parametrize("size", [32, 48])
def test_features_equal_those_of_the_library(family: str, size: int, tmp_path: Path) -> None:
    model = save_model(tmp_path, family)
    backbone = build_backbone(config_of(tmp_path), 3, size)
    images = torch.randn(2, 3, size, size)
    with torch.no_grad():
        expected = library_features(model, family, images)
        torch.testing.assert_close(backbone.eval()(images), expected, rtol=0, atol=1e-5)
    assert backbone.out_features == expected.shape[1]
    assert float(expected.std(dim=0).max()) > 1e-3  # the images make a difference


@every_family
def test_training_is_not_random(family: str, tmp_path: Path) -> None:
    """Dropout and jittered positions are off: two passes in training mode agree."""
    save_model(tmp_path, family)
    backbone = build_backbone(config_of(tmp_path), 3, 32).train()
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(backbone(images), backbone(images))


@every_family
def test_every_parameter_that_is_trained_gets_a_gradient(family: str, tmp_path: Path) -> None:
    save_model(tmp_path, family)
    backbone = build_backbone(config_of(tmp_path), 3, 32).eval()
    backbone(torch.randn(2, 3, 32, 32)).square().sum().backward()
    without = [name for name, p in backbone.named_parameters() if p.requires_grad and p.grad is None]
    assert without == []


@every_family
def test_a_network_can_be_checked_without_memory(family: str, tmp_path: Path) -> None:
    """On the meta device, images pass through it: a saved model is checked so before it is built."""
    save_model(tmp_path, family)
    backbone = inspect_backbone(config_of(tmp_path), 3, 48).eval()
    with torch.inference_mode():
        assert backbone(torch.empty(2, 3, 48, 48, device="meta")).shape == (2, backbone.out_features)


def test_a_name_of_the_hub_loads_no_code(tmp_path: Path) -> None:
    """The library takes such a name for attention code that it should download."""
    save_model(tmp_path, "vit")
    architecture = json.loads(json.dumps(build_backbone(config_of(tmp_path), 3, 32).architecture))
    architecture["config"]["_attn_implementation"] = "stranger/attention"
    backbone = build_backbone(config_of(tmp_path / "gone"), 3, 32, saved=architecture).eval()
    assert backbone(torch.randn(1, 3, 32, 32)).shape == (1, 16)


@every_family
def test_a_saved_model_is_built_without_its_folder(family: str, tmp_path: Path) -> None:
    save_model(tmp_path / "model", family)
    backbone = build_backbone(config_of(tmp_path / "model"), 3, 32).eval()
    architecture = json.loads(json.dumps(backbone.architecture))
    assert str(tmp_path) not in json.dumps(architecture)
    again = build_backbone(config_of(tmp_path / "gone"), 3, 32, saved=architecture).eval()
    again.load_state_dict(backbone.state_dict())
    images = torch.randn(2, 3, 32, 32)
    assert torch.equal(again(images), backbone(images))
    assert (again.mean, again.std, again.native_size) == (backbone.mean, backbone.std, backbone.native_size)


@every_family
def test_inspection_reads_no_weights(family: str, tmp_path: Path) -> None:
    save_model(tmp_path, family)
    (tmp_path / "model.safetensors").unlink()
    seen = inspect_backbone(config_of(tmp_path), 3, 32)
    assert (seen.native_size, seen.mean, seen.std) == (32, tuple(MEAN), tuple(STD))
    assert next(seen.parameters()).is_meta
    assert 0 < seen.first_top_layer < len(seen.layers())


def test_initial_weights_are_drawn_from_the_seed(tmp_path: Path) -> None:
    save_model(tmp_path, "convnext")

    def build(seed: int) -> Backbone:
        torch.manual_seed(seed)
        return build_backbone(config_of(tmp_path, pretrained="none"), 3, 32)

    first, same, other = (nn.utils.parameters_to_vector(build(seed).parameters()) for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert (build(1).native_size, build(1).mean, build(1).provenance) == (None, None, "")


def test_grey_images_are_repeated(tmp_path: Path) -> None:
    save_model(tmp_path, "vit")
    backbone = build_backbone(config_of(tmp_path), 1, 32).eval()
    grey = torch.randn(2, 1, 32, 32)
    torch.testing.assert_close(backbone(grey), backbone(grey.repeat(1, 3, 1, 1)))
    assert backbone.mean == pytest.approx((0.4,))


def test_batch_norms_are_ours(tmp_path: Path) -> None:
    save_model(tmp_path, "mobilenet_v2")
    norms = [m for m in build_backbone(config_of(tmp_path), 3, 32).modules() if isinstance(m, nn.BatchNorm2d)]
    assert norms
    assert all(isinstance(m, WarmBatchNorm2d) and not m.warmup and m.momentum == 0.01 for m in norms)


def test_an_average_follows_a_backbone(tmp_path: Path) -> None:
    save_model(tmp_path, "dinov3_vit")
    backbone = build_backbone(config_of(tmp_path), 3, 32).eval()
    images = torch.randn(1, 3, 32, 32)
    assert torch.equal(copy.deepcopy(backbone)(images), backbone(images))


@pytest.mark.parametrize(
    ("values", "size", "mean"),
    [
        ({"size": 40}, 40, 0.5),
        ({"size": {"shortest_edge": 36}}, 36, 0.5),
        ({"do_center_crop": True, "crop_size": {"height": 24, "width": 24}}, 24, 0.5),
        ({"rescale_factor": 1 / 127.5}, 32, 0.25),
        ({"do_normalize": False}, 32, 0.0),
        ({"do_rescale": False, "image_mean": [127.5] * 3}, 32, 0.5),
    ],
)
def test_processor_fields(values: dict[str, Any], size: int, mean: float, tmp_path: Path) -> None:
    save_model(tmp_path, "resnet")
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**PROCESSOR, **values}), encoding="utf-8")
    seen = inspect_backbone(config_of(tmp_path), 3, 32)
    assert seen.native_size == size
    assert seen.mean is not None
    assert seen.mean[0] == pytest.approx(mean)


def test_the_licence_of_the_model_card_is_recorded(tmp_path: Path) -> None:
    save_model(tmp_path, "resnet")
    assert "licence: see its model card" in build_backbone(config_of(tmp_path), 3, 32).provenance
    (tmp_path / "README.md").write_text("---\nlicense: apache-2.0\n---\n", encoding="utf-8")
    assert "licence apache-2.0" in build_backbone(config_of(tmp_path), 3, 32).provenance


def refuse(folder: Path, sentence: str, size: int = 32, **fields: Any) -> None:
    with pytest.raises(UserError, match=sentence):
        build_backbone(config_of(folder, **fields), 3, size)


def test_other_families_are_refused(tmp_path: Path) -> None:
    transformers.BertConfig().save_pretrained(tmp_path)
    refuse(tmp_path, "is a model of the family 'bert', which is not known; known: convnext, ")


def test_a_folder_without_a_processor_is_refused(tmp_path: Path) -> None:
    save_model(tmp_path, "resnet")
    (tmp_path / "preprocessor_config.json").unlink()
    refuse(tmp_path, "cannot be loaded .*preprocessor_config.json")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"image_mean": 3}', '{"size": {}, "image_mean": [1, 2]}'])
def test_a_damaged_processor_is_refused(content: str, tmp_path: Path) -> None:
    save_model(tmp_path, "resnet")
    (tmp_path / "preprocessor_config.json").write_text(content, encoding="utf-8")
    refuse(tmp_path, "cannot be loaded")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"model_type": "resnet", "depths": "no"}'])
def test_a_damaged_configuration_is_refused(content: str, tmp_path: Path) -> None:
    save_model(tmp_path, "resnet")
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    refuse(tmp_path, "cannot be loaded")


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    model = save_model(tmp_path, "resnet")
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    refuse(tmp_path, "cannot be loaded .*safetensors")


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    save_model(tmp_path, "resnet")
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    refuse(tmp_path, "cannot be loaded")


def test_missing_weights_are_named(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save_model(tmp_path, "convnext")
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["layernorm.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    refuse(tmp_path, r"the weights of hf:.* lack layernorm\.weight; restore its files\.")


def test_images_that_are_too_small_for_the_windows(tmp_path: Path) -> None:
    save_model(tmp_path, "swin")
    refuse(tmp_path, r"set data\.image_size to 25 or more \(its own size is 32\)", size=24)
    images = torch.randn(1, 3, 25, 25)
    assert build_backbone(config_of(tmp_path), 3, 25)(images).shape == (1, 16)


@pytest.mark.parametrize("family", ["dinov3_vit", "swin"])
def test_images_of_another_size_than_announced(family: str, tmp_path: Path) -> None:
    save_model(tmp_path, family)
    backbone = build_backbone(config_of(tmp_path), 3, 32)
    with pytest.raises(UserError, match=r"square images of 32 pixels, not for 32 x 40: set data\.image_size=32\."):
        backbone(torch.randn(1, 3, 32, 40))


def test_grey_models_and_missing_norms_are_refused(tmp_path: Path) -> None:
    save_model(tmp_path, "resnet", num_channels=1)
    refuse(tmp_path, "reads images of 1 channels; only 3 are supported")
    refuse(tmp_path, r"model\.norm=none does not work with hf:", norm="none")


@pytest.mark.parametrize("name", ["", ".", "models/of/mine", "./model", "/absent"])
def test_a_missing_folder_is_not_looked_for_on_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"there is no folder|cannot be loaded"):
        build_backbone(ModelConfig(backbone=f"hf:{name}"), 3, 32)


def test_without_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    refuse(tmp_path, r"pip install 'semco\[hf\]'")


def test_weights_of_a_classifier_fit(tmp_path: Path) -> None:
    """Most models on the hub are saved with a classifier, whose weights are left out."""
    kind, values = TINY["resnet"]
    model = transformers.ResNetForImageClassification(getattr(transformers, kind)(**values))
    model.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(PROCESSOR), encoding="utf-8")
    backbone = build_backbone(config_of(tmp_path), 3, 32).eval()
    assert isinstance(backbone, HfBackbone)
    images = torch.randn(2, 3, 32, 32)
    expected = model.eval().resnet(images).pooler_output.flatten(1)
    torch.testing.assert_close(backbone(images), expected)
