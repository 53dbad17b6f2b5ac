"""A saved model predicts as before, and errors name what is wrong with a damaged one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from semco.config import ModelConfig
from semco.errors import UserError
from semco.evaluation.model_file import ModelDescription, SavedModel, empty_network, load_model, save_model
from semco.evaluation.probabilities import HEADS, predict_probabilities
from semco.evaluation.thresholds import Threshold
from semco.models import Network, build_network
from semco.models.pretrained import is_installed
from semco.run.seal import read_with_digest, write_with_digest


@pytest.fixture
def model() -> SavedModel:
    description = ModelDescription(
        class_names=("shirt", "coat", "bag"),
        image_size=(8, 8),
        channels=1,
        mean=(0.3,),
        std=(0.2,),
        model=ModelConfig(backbone="wrn-10-1"),
        heads=("one_hot", "semantic"),
        embedding_dim=4,
        scale=5.0,
        groups=(0, 0, 1),
        eps=0.2,
    )
    label_vectors = torch.nn.functional.normalize(torch.randn(3, 4, generator=torch.Generator().manual_seed(0)))
    network = empty_network(description).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return SavedModel(description, network, label_vectors)


@pytest.fixture
def folder(model: SavedModel, tmp_path: Path) -> Path:
    save_model(tmp_path / "run" / "model", model)
    return tmp_path / "run" / "model"


def test_a_loaded_model_predicts_the_same_bits(model: SavedModel, folder: Path) -> None:
    loaded = load_model(folder)
    images = torch.randn(5, 1, 8, 8)
    assert loaded.description.model_copy(update={"checksums": {}}) == model.description
    assert not loaded.network.training
    for head in HEADS:
        before = predict_probabilities(model.network, [images], model.scorer(head))
        after = predict_probabilities(loaded.network, [images], loaded.scorer(head))
        assert (before == after).all()


def test_the_folder_holds_three_files_and_no_temporary_ones(folder: Path) -> None:
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["labels.safetensors", "model.json", "model.safetensors"]


def test_loading_does_not_change_the_global_random_state(folder: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    load_model(folder)
    assert torch.equal(torch.rand(2), expected)


def test_the_error_for_an_unfinished_run_says_how_to_resume_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no finished model .*semco resume"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("name", ["model.safetensors", "labels.safetensors"])
def test_missing_and_truncated_tensors_are_named(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:-7])
    with pytest.raises(UserError, match=f"{name} is damaged or incomplete"):
        load_model(folder)
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"{name} is missing"):
        load_model(folder)


def _edit(folder: Path, **changes: object) -> None:
    """Write another description, with its checksum."""
    file = folder / "model.json"
    write_with_digest(file, read_with_digest(file) | changes)


def test_a_folder_in_the_place_of_the_description_is_one_sentence(folder: Path) -> None:
    model = load_model(folder)
    (folder / "model.json").unlink()
    (folder / "model.json").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*model\.json: Is a directory"):
        save_model(folder, model)


def test_an_edited_description_is_refused(folder: Path) -> None:
    file = folder / "model.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values | {"eps": 0.9}))
    with pytest.raises(UserError, match=r"model\.json was edited or damaged"):
        load_model(folder)


def test_another_format_is_refused(folder: Path) -> None:
    _edit(folder, format=2)
    with pytest.raises(UserError, match=r"model\.json was made by an earlier version of SemCo; train it again"):
        load_model(folder)


def test_an_incomplete_description_is_refused(folder: Path) -> None:
    file = folder / "model.json"
    file.write_text(file.read_text()[:40])
    with pytest.raises(UserError, match="not valid JSON"):
        load_model(folder)


def test_a_damaged_description_names_the_field(folder: Path) -> None:
    _edit(folder, channels=2)
    with pytest.raises(UserError, match="damaged at 'channels'"):
        load_model(folder)


def test_weights_of_another_network_are_refused(folder: Path) -> None:
    _edit(folder, model=ModelConfig(backbone="wrn-16-2").model_dump())
    with pytest.raises(UserError, match=r"model\.safetensors does not hold the network"):
        load_model(folder)


def test_vectors_of_other_classes_are_refused(folder: Path) -> None:
    _edit(folder, class_names=["shirt", "coat"], groups=[0, 0])
    with pytest.raises(UserError, match="does not hold the label vectors"):
        load_model(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "labels.safetensors"])
def test_a_flipped_bit_is_noticed(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-3] ^= 1
    (folder / name).write_bytes(bytes(content))
    with pytest.raises(UserError, match=f"{name} is damaged: its content is not what was saved"):
        load_model(folder)


@pytest.fixture
def nothing_is_built(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 (which builds one)
    """Networks may be built on the meta device only, where they take no memory."""

    def build(*arguments: object, **options: object) -> Network:
        assert torch.empty(0).device.type == "meta"
        return build_network(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("semco.evaluation.model_file.build_network", build)


@pytest.mark.usefixtures("nothing_is_built")
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"groups": [0, 0, 10**9]}, "groups are numbers from 0 to 2, not"),
        ({"groups": [0, -1, 0]}, "groups are numbers from 0 to 2, not"),
        ({"groups": [0]}, "1 groups for 3 classes"),
        ({"class_names": ["shirt", "bag", "bag"]}, "2 classes are named 'bag'"),
        ({"class_names": ["shirt", "", "bag"]}, "a class is named ''"),
        ({"class_names": ["shirt", "co\0at", "bag"]}, r"a class is named 'co\\x00at'"),
        ({"class_names": [], "groups": []}, "damaged at 'class_names'"),
        ({"image_size": [100_000, 100_000]}, "damaged at 'image_size.0'"),
        ({"image_size": [4096, 4096]}, "one image takes it more than 512 MB"),
        ({"image_size": [8, 0]}, "damaged at 'image_size.1'"),
        ({"channels": 7}, "damaged at 'channels'"),
        ({"mean": [0.3, 0.3, 0.3]}, "mean and std have 3 and 1 values"),
        ({"std": [0.0]}, "damaged at 'std.0'"),
        ({"heads": ["one_hot", "third"]}, "damaged at 'heads.1'"),
        ({"scale": -1}, "damaged at 'scale'"),
        ({"embedding_dim": 10**12}, "damaged at 'embedding_dim'"),
        ({"embedding_dim": 10**6}, "does not hold the label vectors"),
        ({"architecture": {"config": {"depths": [1, 10**9]}}}, "is more than 1,048,576"),
    ],
)
def test_numbers_of_strangers_are_bounded(folder: Path, changes: dict[str, object], sentence: str) -> None:
    _edit(folder, **changes)
    with pytest.raises(UserError, match=sentence):
        load_model(folder)


@pytest.mark.usefixtures("nothing_is_built")
@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"backbone": "wrn-999994-1"}, "the depth at most 1000"),
        ({"backbone": "wrn-28-2000"}, "the width is 1 to 64"),
        ({"backbone": "wrn-28-64"}, "does not hold the network"),
        ({"backbone": f"wrn-{'9' * 5000}-1"}, "unknown backbone"),
        ({"backbone": "wrn-10-1", "norm": "none"}, "does not hold the network"),
        ({"backbone": "wrn-10-1", "semantic_head": "mlp", "mlp_hidden": 2**20}, "does not hold the network"),
        ({"backbone": "wrn-10-1", "mlp_hidden": 10**12}, "damaged at 'model.mlp_hidden'"),
    ],
)
def test_a_network_that_the_weights_do_not_hold_is_not_built(
    folder: Path, values: dict[str, object], sentence: str
) -> None:
    _edit(folder, model=values)
    with pytest.raises(UserError, match=sentence):
        load_model(folder)


@pytest.mark.usefixtures("nothing_is_built")
def test_images_that_the_network_cannot_read_are_refused(model: SavedModel, tmp_path: Path) -> None:
    """CNN-13 cuts the edges, so that nothing is left of 4 pixels."""
    config = ModelConfig(backbone="cnn-13")
    network = build_network(config, model.description.heads, 3, 4, 1, 8)
    description = model.description.model_copy(update={"model": config, "image_size": (4, 4)})
    save_model(tmp_path, SavedModel(description, network, model.label_vectors))
    with pytest.raises(UserError, match=r"does not hold the network .*Kernel size can't be greater"):
        load_model(tmp_path)


@pytest.mark.usefixtures("nothing_is_built")
@pytest.mark.parametrize(
    "config", [{"num_hidden_layers": 10**6}, {"hidden_size": 10**6}, {"patch_size": 0}, {"num_attention_heads": 7}]
)
def test_an_architecture_that_the_weights_do_not_hold_is_not_built(folder: Path, config: dict[str, int]) -> None:
    pytest.importorskip("transformers")
    processor = {"size": 8, "mean": [0.5] * 3, "std": [0.5] * 3}
    small = {"model_type": "vit", "hidden_size": 8, "num_hidden_layers": 1, "image_size": 8, "patch_size": 4}
    _edit(
        folder,
        model={"backbone": "hf:gone"},
        architecture={"config": small | config, "processor": processor},
    )
    with pytest.raises(UserError, match=r"does not hold the network|cannot be loaded"):
        load_model(folder)


def saved_with(model: SavedModel, folder: Path, backbone: str, size: int) -> SavedModel:
    """Save a model with this backbone as a run does, whose network has loaded weights, and return it."""
    config = ModelConfig(backbone=backbone)
    values = {"model": config, "channels": 3, "mean": (0.5,) * 3, "std": (0.2,) * 3, "image_size": (size, size)}
    description = model.description.model_copy(update=values)
    network = build_network(config, description.heads, 3, 4, 3, size)
    saved = SavedModel(description, network.eval(), model.label_vectors)
    save_model(folder, saved)
    return saved


def assert_same_predictions(one: SavedModel, other: SavedModel, size: int) -> None:
    images = torch.randn(2, 3, size, size)
    torch.testing.assert_close(one.network(images).logits, other.network(images).logits)


def test_a_pretrained_model_loads_without_the_package(
    model: SavedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_installed("efficientnet-lite0"):
        pytest.skip("needs the extra `pretrained`")
    saved = saved_with(model, tmp_path, "efficientnet-lite0", 32)
    monkeypatch.setattr("semco.models.pretrained.PublishedWeights.path", lambda _: None)
    loaded = load_model(tmp_path)
    assert_same_predictions(saved, loaded, 32)
    assert "licence Apache-2.0" in loaded.network.backbone.provenance
    own = build_network(
        ModelConfig(backbone="efficientnet-lite0", weights=tmp_path / "model.safetensors"), (), 3, 4, 3, 32
    )
    assert "trained from ImageNet weights" in own.backbone.provenance


def test_a_transformers_model_loads_without_its_folder(model: SavedModel, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    original = tmp_path / "original"
    config = transformers.ConvNextConfig(hidden_sizes=[4, 6], depths=[1, 1], num_stages=2)
    transformers.ConvNextModel(config).save_pretrained(original)
    processor = {"size": {"shortest_edge": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (original / "preprocessor_config.json").write_text(json.dumps(processor), encoding="utf-8")
    saved = saved_with(model, tmp_path / "model", f"hf:{original}", 32)
    shutil.rmtree(original)
    assert_same_predictions(saved, load_model(tmp_path / "model"), 32)


def test_a_damaged_architecture_is_refused(folder: Path) -> None:
    values = read_with_digest(folder / "model.json")
    values["model"]["backbone"] = "hf:gone"
    values["architecture"] = {"config": {"model_type": "convnext", "depths": "?"}, "processor": {}}
    write_with_digest(folder / "model.json", values)
    pytest.importorskip("transformers")
    with pytest.raises(UserError, match="the backbone hf:gone cannot be loaded"):
        load_model(folder)


def test_a_model_with_thresholds_has_a_familiarity(model: SavedModel, tmp_path: Path) -> None:
    description = model.description.model_copy(update={"thresholds": (Threshold(0.05, 0.25),)})
    network = empty_network(description).eval()
    assert network.familiarity is not None
    network.familiarity.means[:, 0] = 1.0
    save_model(tmp_path / "model", SavedModel(description, network, model.label_vectors))
    loaded, images = load_model(tmp_path / "model"), torch.randn(5, 1, 8, 8)
    assert loaded.description.thresholds == description.thresholds
    found = loaded.network(images).familiarity
    features = network.backbone(images)
    assert found is not None
    torch.testing.assert_close(found, features[:, 0] / features.norm(dim=1))


@pytest.mark.parametrize("threshold", [{"share": 0, "least": 0.5}, {"share": 0.1, "least": 1e999}, {"share": 0.1}])
def test_thresholds_are_bounded(folder: Path, threshold: dict[str, float]) -> None:
    file = folder / "model.json"
    write_with_digest(file, read_with_digest(file) | {"thresholds": [threshold]})
    with pytest.raises(UserError, match="is damaged at 'thresholds"):
        load_model(folder)


def test_thresholds_without_a_familiarity_are_refused(folder: Path) -> None:
    file = folder / "model.json"
    write_with_digest(file, read_with_digest(file) | {"thresholds": [{"share": 0.1, "least": 0.5}]})
    with pytest.raises(UserError, match="it holds other tensors"):
        load_model(folder)
