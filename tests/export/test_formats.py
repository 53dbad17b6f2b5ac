"""Folders for other programs give the same answers as torch, and are written whole or not at all."""

from __future__ import annotations

import ast
import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import semco
from semco.config import ModelConfig
from semco.errors import UserError
from semco.evaluation.model_file import ModelDescription, SavedModel
from semco.export import run as export_module
from semco.export.formats import FORMATS, format_of
from semco.export.hf_folder import hf_probabilities, native_classifier, write_hf
from semco.export.onnx_graph import complete_graph, write_onnx
from semco.export.program import Program
from semco.export.run import Export, export_run
from semco.models import FeatureTransform, build_network
from semco.models.hf import FAMILIES
from semco.predict.engine import TorchEngine
from semco.predict.onnx.engine import OnnxEngine
from tests.conftest import CLASSES
from tests.models.test_hf import save_model

NATIVE = sorted(set(FAMILIES) - {"dinov3_vit", "dinov3_convnext"})


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No connections, and copies of code go to a folder of the test."""
    import transformers.dynamic_module_utils as of_code

    def refuse(*_: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(of_code, "HF_MODULES_CACHE", str(tmp_path / "modules"))


def answer(folder: Path, photo: Path, **options: Any) -> dict[str, float]:
    """Return the scores that the pipeline of `transformers` gives the classes of a photo."""
    import transformers

    pipeline = transformers.pipeline("image-classification", model=str(folder), device="cpu", **options)
    return {each["label"]: each["score"] for each in pipeline(str(photo), top_k=100)}


def photo_file(folder: Path, height: int, width: int) -> Path:
    """Write a photo that is no copy of another one, without losses."""
    pixels = np.random.default_rng(3).integers(60, 200, (height // 4, width // 4, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC).save(folder / "photo.png")
    return folder / "photo.png"


def hf_model(folder: Path, family: str, size: int = 32) -> SavedModel:
    """Return a model whose backbone is a tiny one of `transformers`, with three classes."""
    save_model(folder, family)
    config = ModelConfig(backbone=f"hf:{folder}")
    heads = ("one_hot", "semantic")
    torch.manual_seed(1)
    network = build_network(config, heads, 3, 5, 3, size).eval()
    logits = network(torch.randn(16, 3, size, size)).logits
    head: Any = network.heads["one_hot"]
    head.bias.data.sub_(logits.mean(dim=0)).div_(logits.std())  # so that the photos make a difference
    head.weight.data.div_(logits.std())
    described = ModelDescription(
        class_names=("dog", "cat", "ship"), image_size=(size, size), channels=3, mean=(0.5, 0.4, 0.3),
        std=(0.2, 0.25, 0.3), model=config, heads=heads, embedding_dim=5, scale=3.0, groups=(0, 0, 1), eps=0.2,
    )  # fmt: skip
    return SavedModel(described, network, torch.nn.functional.normalize(torch.randn(3, 5), dim=1))


def test_openvino_equals_onnx(run: Path, exported: Export, tmp_path: Path, photos: NDArray[np.uint8]) -> None:
    """What a program without SemCo does, on photos of the size of the model and on wide ones."""
    openvino = pytest.importorskip("openvino")
    done = export_run(run, tmp_path / "ov", format_name="openvino")
    assert (done.images, done.agreement, done.opset) == (80, 1.0, None)
    assert done.difference < 1e-5
    assert {path.name for path in done.file.iterdir()} == {"model.xml", "model.bin", "MODEL_CARD.md"}
    model = openvino.Core().read_model(done.file / "model.xml")
    about = json.loads(model.get_rt_info(["semco"]).astype(str))
    assert about["class_names"] == list(CLASSES)
    assert about["groups"][0] == "dog + cat"
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    session = onnxruntime.InferenceSession(exported.file, providers=["CPUExecutionProvider"])
    wide = np.asarray(Image.open(photo_file(tmp_path, 40, 64)))[None]
    for batch in (photos, wide):
        for name in ("probabilities", "probabilities_one_hot", "probabilities_semantic"):
            (expected,) = session.run([name], {"photos": batch})
            np.testing.assert_allclose(compiled({"photos": batch})[name], expected, atol=1e-4)


def test_the_triton_folder_describes_its_graph(run: Path, tmp_path: Path, photos: NDArray[np.uint8]) -> None:
    """The description is read by Triton's own schema."""
    text_format = pytest.importorskip("google.protobuf.text_format")
    schema = pytest.importorskip("tritonclient.grpc.model_config_pb2")
    done = export_run(run, tmp_path / "flowers", top=3, format_name="triton")
    assert {path.relative_to(done.file).as_posix() for path in done.file.rglob("*") if path.is_file()} == {
        "config.pbtxt", "1/model.onnx", "MODEL_CARD.md",
    }  # fmt: skip
    config = text_format.Parse((done.file / "config.pbtxt").read_text(), schema.ModelConfig())
    assert (config.platform, config.max_batch_size) == ("onnxruntime_onnx", 0)
    types = {"TYPE_UINT8": "tensor(uint8)", "TYPE_FP32": "tensor(float)", "TYPE_STRING": "tensor(string)"}
    session = onnxruntime.InferenceSession(done.file / "1" / "model.onnx", providers=["CPUExecutionProvider"])
    for described, found in ((config.input, session.get_inputs()), (config.output, session.get_outputs())):
        assert [(each.name, types[schema.DataType.Name(each.data_type)], list(each.dims)) for each in described] == [
            (each.name, each.type, [dim if isinstance(dim, int) else -1 for dim in each.shape]) for each in found
        ]
    assert list(config.input[0].dims) == [-1, -1, -1, 3]
    assert "top_names" in [each.name for each in config.output]
    assert onnx.load(done.file / "1" / "model.onnx").opset_import[0].version == done.opset
    names = session.run(["top_names"], {"photos": photos})[0]
    assert names[:, 0].tolist() == [each.label for each in semco.load(run, engine="torch").predict(photos)]


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("head", ["one_hot", "average"])
def test_a_pipeline_answers_as_the_run(run: Path, tmp_path: Path, head: Any) -> None:
    done = export_run(run, tmp_path / "my.model", head, format_name="hf")
    assert done.difference < 1e-5
    assert {path.name for path in done.file.iterdir()} == {
        "README.md", "config.json", "model.safetensors", "modeling_semco.py", "preprocessor_config.json",
    }  # fmt: skip
    photo = photo_file(tmp_path, 40, 64)
    (expected,) = semco.load(run, head=head, engine="torch").predict_proba([photo])
    found = answer(done.file, photo, trust_remote_code=True)
    np.testing.assert_allclose([found[name] for name in CLASSES], expected, atol=1e-5)


def test_the_code_of_a_folder_does_not_need_semco(run: Path, tmp_path: Path) -> None:
    done = export_run(run, tmp_path / "hf", format_name="hf")
    tree = ast.parse((done.file / "modeling_semco.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    found = {(each.module or "" if isinstance(each, ast.ImportFrom) else each.names[0].name) for each in imports}
    assert {name.partition(".")[0] for name in found} == {"PIL", "numpy", "torch", "transformers"}
    assert (done.file / "README.md").read_text().startswith("---\nlibrary_name: transformers\n")
    assert "# Model card of hf\n" in done.card.read_text()


@pytest.mark.parametrize("family", NATIVE)
def test_the_classes_of_transformers_answer_as_the_network(family: str, tmp_path: Path) -> None:
    model = hf_model(tmp_path / "weights", family)
    folder = tmp_path / "hf"
    folder.mkdir()
    program = Program(model).eval()
    write_hf(folder, program, model)
    assert not (folder / "modeling_semco.py").exists()
    photos = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    expected = program(torch.from_numpy(photos))[0].numpy()
    np.testing.assert_allclose(hf_probabilities(folder, [photos])[0], expected, atol=1e-5)
    assert np.ptp(expected, axis=0).max() > 1e-3  # the photos make a difference


@pytest.mark.usefixtures("offline")
def test_a_pipeline_of_a_native_class_needs_no_code(tmp_path: Path) -> None:
    model = hf_model(tmp_path / "weights", "resnet")
    folder = tmp_path / "hf"
    folder.mkdir()
    program = Program(model).eval()
    write_hf(folder, program, model)
    photo = photo_file(tmp_path, 96, 128)
    (expected,) = program(torch.from_numpy(np.asarray(Image.open(photo))[None].copy()))[0].numpy()
    found = answer(folder, photo)
    np.testing.assert_allclose([found[name] for name in ("dog", "cat", "ship")], expected, atol=2e-3)


def test_networks_without_a_native_class(tmp_path: Path) -> None:
    model = hf_model(tmp_path / "resnet", "resnet")
    assert native_classifier(model, "one_hot") is not None
    assert native_classifier(model, "average") is None
    assert native_classifier(hf_model(tmp_path / "dinov3", "dinov3_convnext"), "one_hot") is None
    assert native_classifier(hf_model(tmp_path / "vit", "vit", size=48), "one_hot") is None  # made for 32 pixels


def test_code_of_a_network_with_a_transform(tmp_path: Path) -> None:
    """Two views per photo, and other features than those of the backbone: no class of the library does that."""
    model = hf_model(tmp_path / "weights", "resnet")
    size = model.network.backbone.out_features
    model.network.transform = FeatureTransform(torch.zeros(size), torch.randn(size, size), has_close_up=True)
    assert native_classifier(model, "one_hot") is None
    folder = tmp_path / "hf"
    folder.mkdir()
    program = Program(model).eval()
    write_hf(folder, program, model)
    photos = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    (scores,) = TorchEngine(model).stream([torch.from_numpy(photos).permute(0, 3, 1, 2)])
    expected = scores.chosen
    np.testing.assert_allclose(hf_probabilities(folder, [photos])[0], expected, atol=1e-5)
    write_onnx(tmp_path / "model.onnx", complete_graph(program, model, 2))
    assert "Resize" not in {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}
    np.testing.assert_allclose(OnnxEngine(tmp_path / "model.onnx").score_photos(photos).chosen, expected, atol=1e-5)


def test_code_of_a_transformer(tmp_path: Path) -> None:
    model = hf_model(tmp_path / "weights", "vit", size=48)
    folder = tmp_path / "hf"
    folder.mkdir()
    program = Program(model, "semantic").eval()
    write_hf(folder, program, model)
    photos = np.random.default_rng(0).integers(0, 256, (4, 48, 48, 3), dtype=np.uint8)
    expected = program(torch.from_numpy(photos))[0].numpy()
    np.testing.assert_allclose(hf_probabilities(folder, [photos])[0], expected, atol=1e-5)


def test_what_differs_from_torch_leaves_nothing(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_module, "MOST_DIFFERENCE", -1.0)
    with pytest.raises(UserError, match="flowers is not written: its probabilities differ"):
        export_run(run, tmp_path / "flowers", format_name="triton")
    assert list(tmp_path.iterdir()) == []


def test_targets_that_a_format_cannot_have(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    FORMATS["hf"].check(tmp_path / "mine")
    (tmp_path / "mine" / "photo.png").touch()
    with pytest.raises(UserError, match="mine exists; remove it, or choose another folder"):
        FORMATS["hf"].check(tmp_path / "mine")
    with pytest.raises(UserError, match=r"openvino is a folder of several files: give its name, not 'model\.xml'"):
        FORMATS["openvino"].check(tmp_path / "model.xml")
    with pytest.raises(UserError, match=r"the format torch is a file \.pt2, not 'model\.onnx'"):
        FORMATS["torch"].check(tmp_path / "model.onnx")
    assert (format_of(None), format_of(Path("a.onnx")), format_of(Path("a.pt2"))) == ("onnx", "onnx", "torch")
    with pytest.raises(UserError, match="the formats are onnx, torch, openvino, triton, hf"):
        format_of(Path("folder"))
