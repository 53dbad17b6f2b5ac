"""Exported models give the same answers as torch."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import semco
from semco.data.decode import centre_square
from semco.errors import UserError
from semco.evaluation.model_file import load_model
from semco.export.card import as_text, card_of, write_card
from semco.export.program import BackboneWithProducts, Preprocessing, cubic
from semco.export.run import Export, export_run
from semco.models.backbone import close_up
from semco.predict.engine import About
from semco.predict.onnx.engine import OnnxEngine
from semco.predict.predictor import square_to_pixels
from semco.run.folder import RunFolder
from semco.types import Outputs
from tests.cli.in_process import run_here
from tests.conftest import CLASSES


def test_a_plain_session_gives_probabilities_and_names(run: Path, exported: Export, photos: NDArray[np.uint8]) -> None:
    """What a program without SemCo does: numpy and ONNX Runtime."""
    session = onnxruntime.InferenceSession(exported.file, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"photos": photos}), strict=True))
    expected = semco.load(run, engine="torch").predict_proba(photos)
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
    order = np.argsort(-expected, axis=1)[:, :3]
    assert found["top_names"].tolist() == np.array(CLASSES)[order].tolist()
    np.testing.assert_allclose(found["top_probabilities"], np.take_along_axis(expected, order, 1), atol=1e-5)
    for head in ("one_hot", "semantic"):
        of_head = semco.load(run, head=head, engine="torch").predict_proba(photos)  # type: ignore[arg-type]
        np.testing.assert_allclose(found[f"probabilities_{head}"], of_head, atol=1e-5)
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["class_names"]) == list(CLASSES)
    assert json.loads(metadata["groups"]) == ["dog + cat", "dog + cat", "ship + truck", "ship + truck"]


def test_any_batch_and_any_size(exported: Export, run: Path) -> None:
    rng = np.random.default_rng(0)
    with_torch, with_onnx = semco.load(run, engine="torch"), OnnxEngine(exported.file)
    for count, height, width in ((1, 8, 8), (3, 20, 33), (2, 5, 4), (2, 8, 20), (2, 20, 8), (5, 300, 310)):
        batch = rng.integers(90, 160, (count, height, width, 3)).astype(np.uint8)
        gap = np.abs(with_onnx.score_photos(batch).chosen - with_torch.predict_proba(batch))
        assert gap.max() < 0.02  # the pixels may differ by a level


def test_photos_of_the_size_of_the_model_are_not_resampled(exported: Export, run: Path) -> None:
    graph = onnx.load(exported.file).graph
    (branch,) = (node for node in graph.node if node.op_type == "If")
    products = [sum(node.op_type == "MatMul" for node in each.g.node) for each in branch.attribute]
    assert sorted(products) == [0, 2]  # along the rows and the columns
    side = max(semco.load(run).about.image_size)
    batch = np.random.default_rng(0).integers(0, 256, (3, side, side, 3), dtype=np.uint8)
    expected = semco.load(run, engine="torch").predict_proba(batch)
    np.testing.assert_allclose(OnnxEngine(exported.file).score_photos(batch).chosen, expected, atol=1e-5)


def test_what_was_measured(exported: Export) -> None:
    assert (exported.images, exported.opset, exported.agreement) == (80, 20, 1.0)
    assert exported.difference < 1e-5
    assert exported.accuracy == exported.torch_accuracy
    card = exported.card.read_text()
    assert card.startswith("# Model card of model.onnx\n")
    for text in ("16 labelled images", "SemCo+", "dog + cat", "80 test images", "calibration error", "Licences"):
        assert text in card


def test_the_card_names_the_head_that_predicts_if_there_are_several(
    run: Path, exported: Export, tmp_path: Path
) -> None:
    about = OnnxEngine(exported.file).about
    for heads, is_named in ((about.heads, True), (("one_hot",), False)):
        write_card(RunFolder(run), exported.file, tmp_path / "card.md", replace(about, heads=heads))
        assert (f"The {about.head} head predicts." in (tmp_path / "card.md").read_text()) == is_named


def test_names_are_shown_in_the_card_as_they_are() -> None:
    """Class names come from the folders of strangers; a page that renders the card must not run or load them."""
    assert as_text("granny smith, R&D") == "granny smith, R&amp;D"
    assert as_text("<img src=x onerror=alert(1)>") == "&lt;img src=x onerror=alert(1)&gt;"
    assert as_text("![a](http://b)") == r"\!\[a\](http://b)"
    assert as_text("a\n\n# b | `c`") == r"a # b \| \`c\`"


def test_the_card_escapes_the_names_of_classes(run: Path, exported: Export, tmp_path: Path) -> None:
    about = replace(OnnxEngine(exported.file).about, class_names=("<b>dog", "<b>cat", "<b>ship", "<b>truck"))
    write_card(RunFolder(run), tmp_path / "model.onnx", tmp_path / "card.md", about)
    assert "<" not in (tmp_path / "card.md").read_text()


def test_the_card_of_another_model_stays(exported: Export, tmp_path: Path) -> None:
    card = tmp_path / "MODEL_CARD.md"
    assert card_of(tmp_path / "model.onnx") == card
    card.write_text(exported.card.read_text())
    assert card_of(tmp_path / "model.onnx") == card
    assert card_of(tmp_path / "small.onnx").name == "MODEL_CARD-small.onnx.md"
    card.write_bytes(b"\xff my own words")
    assert card_of(tmp_path / "model.onnx").name == "MODEL_CARD-model.onnx.md"


def test_a_run_and_its_exported_file_can_use_every_engine(
    run: Path, exported: Export, photos: NDArray[np.uint8]
) -> None:
    engines = ("openvino", "onnx", "torch")
    loaded = [semco.load(run, engine=name) for name in engines]  # type: ignore[arg-type]
    assert tuple(each.engine.name for each in loaded) == engines
    assert all(each.about == loaded[0].about for each in loaded)
    assert semco.load(run).engine.name == "torch"  # its images are small
    for head in ("semantic", "average"):
        one = semco.load(exported.file, head=head)  # type: ignore[arg-type]
        other = semco.load(run, head=head, engine="torch")  # type: ignore[arg-type]
        np.testing.assert_allclose(one.predict_proba(photos), other.predict_proba(photos), atol=1e-5)
    for each in loaded:
        np.testing.assert_allclose(each.predict_proba(photos), loaded[-1].predict_proba(photos), atol=1e-5)


def test_torch_export(run: Path, tmp_path: Path, photos: NDArray[np.uint8]) -> None:
    done = export_run(run, tmp_path / "model.pt2")
    assert done.difference < 1e-5
    extra = {"semco.json": ""}
    program = torch.export.load(done.file, extra_files=extra).module()
    assert json.loads(extra["semco.json"])["class_names"] == list(CLASSES)
    with torch.no_grad():
        found = program(torch.from_numpy(photos))[0].numpy()
    np.testing.assert_allclose(found, semco.load(run).predict_proba(photos), atol=1e-5)


def test_a_network_can_be_exported_by_itself(run: Path) -> None:
    """`Outputs` is known to torch.export."""
    network = load_model(run / "model").network
    images = torch.randn(2, 1, 8, 8)
    outputs = torch.export.export(network, (images,)).module()(images)
    assert isinstance(outputs, Outputs)
    torch.testing.assert_close(outputs.logits, network(images).logits)


ELSEWHERE = """
import sys
import numpy as np
import onnx
import onnxruntime

assert "torch" not in sys.modules
session = onnxruntime.InferenceSession(sys.argv[1])
names, probabilities = session.run(["top_names", "probabilities"], {"photos": np.load(sys.argv[2])})
np.savez(sys.argv[3], names=names[:, 0].astype(str), probabilities=probabilities)
"""


@pytest.mark.slow
def test_a_venv_with_onnx_runtime_and_numpy_alone_is_enough(
    run: Path, exported: Export, photos: NDArray[np.uint8], tmp_path: Path
) -> None:
    """pip has to find the packages, so this test needs an index."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    constraints = Path(__file__).parents[2] / "constraints.txt"
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", constraints, "onnxruntime", "numpy"]
    subprocess.run(list(map(str, install)), check=True, env=environment)
    np.save(tmp_path / "photos.npy", photos)
    command = [python, "-c", ELSEWHERE, exported.file, tmp_path / "photos.npy", tmp_path / "found.npz"]
    subprocess.run(list(map(str, command)), check=True, env=environment)
    expected = semco.load(run, engine="torch")
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_allclose(found["probabilities"], expected.predict_proba(photos), atol=1e-5)
        assert found["names"].tolist() == [each.label for each in expected.predict(photos)]


def test_a_target_that_cannot_be_written(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"exported as \.onnx or \.pt2"):
        export_run(run, tmp_path / "model.h5")


def test_a_file_of_the_user_is_overwritten_only_by_force(run: Path, exported: Export, tmp_path: Path) -> None:
    mine = tmp_path / "mine.onnx"
    mine.write_bytes(b"mine")
    refused = run_here("export", run, "--to", mine)
    assert refused.returncode == 2
    error = f"error: {mine} exists; choose another name, or force it to be overwritten (--force)."
    assert refused.stderr.strip() == error
    assert mine.read_bytes() == b"mine"
    assert run_here("export", run, "--to", mine, "--force").returncode == 0
    assert OnnxEngine(mine).about.class_names == CLASSES
    assert export_run(run, top=3).file == exported.file  # in the run's own folder, without --force


def test_files_that_are_no_exported_models(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(UserError, match="is not a model that ONNX Runtime reads"):
        semco.load(tmp_path / "model.onnx")
    with pytest.raises(UserError, match=r"gone\.onnx is missing"):
        semco.load(tmp_path / "gone.onnx")


def photo(height: int, width: int) -> np.ndarray:
    """A photo with smooth parts and edges, within the range of levels, so that no filter leaves it."""
    rng = np.random.default_rng(height * width)
    coarse = rng.integers(60, 196, (5, 6, 3)).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BILINEAR))
    return np.clip(smooth.astype(int) + rng.integers(-8, 9, (height, width, 1)), 40, 215).astype(np.uint8)


@pytest.mark.parametrize(
    ("height", "width", "side"), [(60, 100, 32), (61, 100, 32), (100, 61, 32), (20, 31, 32), (97, 128, 96), (7, 9, 8)]
)
def test_resizing_as_pillow_does(height: int, width: int, side: int) -> None:
    image = photo(height, width)
    made = Preprocessing((side, side), 3, (0.0,) * 3, (1.0,) * 3).square(torch.from_numpy(image)[None])
    expected = centre_square(Image.fromarray(image), side).transpose(2, 0, 1).astype(np.float32)
    gap = np.abs(made[0].numpy() - expected)
    assert gap.max() <= 1
    assert (gap > 0).mean() < (0.005 if width >= height else 0.35)  # Pillow may take the passes in another order


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(32, 32), (24, 32), (32, 20)])
def test_photos_of_the_size_of_the_model_pass_exactly(channels: int, size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3)).astype(np.uint8)
    about = About(("a", "b"), (0, 1), size, channels, "one_hot", ("one_hot",))
    mean, std = (0.3,) * channels, (0.2,) * channels
    made = Preprocessing(size, channels, mean, std)(torch.from_numpy(image)[None])
    pixels = square_to_pixels(image, about).double()
    np.testing.assert_allclose(made[0].numpy(), (pixels / 255 - 0.3) / 0.2, atol=1e-5)


def test_the_bicubic_filter() -> None:
    """Keys (1981) with a = -0.5: 1 at 0, 0 at 1 and 2, 9/16 and -1/16 halfway; shifted copies sum to 1."""
    values = cubic(torch.tensor([0.0, 0.5, -0.5, 1.0, 1.5, 2.0, 2.5]))
    np.testing.assert_allclose(values, [1, 9 / 16, 9 / 16, 0, -1 / 16, 0, 0], atol=1e-6)
    assert float(cubic(torch.tensor([-1.3, -0.3, 0.7, 1.7])).sum()) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("size", [(224, 224), (32, 24), (7, 40)])
def test_products_make_the_same_close_up(size: tuple[int, int]) -> None:
    images = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0))
    made = BackboneWithProducts(torch.nn.Identity(), size)
    torch.testing.assert_close(made.enlarge(images), close_up(images), atol=1e-5, rtol=0)
    assert made.views(images, has_close_up=False).shape[1] == 1
    torch.testing.assert_close(made.views(images, has_close_up=True)[:, 0], images)


def test_an_export_says_what_it_does_and_removes_what_a_killed_one_left(run: Path, tmp_path: Path) -> None:
    (tmp_path / ".model.onnx.0123abcd.tmp").write_bytes(b"half of a model")
    (tmp_path / ".other.onnx.0123abcd.tmp").write_bytes(b"of another export")
    parts: dict[str, tuple[int, int]] = {}
    export_run(run, tmp_path / "model.onnx", report=lambda what, *count: parts.__setitem__(what, count))
    assert list(parts)[-3:] == [f"writing {tmp_path / 'model.onnx'}", "answers of torch", "answers of the export"]
    assert all(done == total for done, total in parts.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".other.onnx.0123abcd.tmp",
        "MODEL_CARD.md",
        "model.onnx",
    ]
