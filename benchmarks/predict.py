"""CPU time of predicting photos from their files: our engines, an exported file, and a plain loop, in turns.

The model is a semantic probe, which predicts from two views of each photo, with random weights.

Shapes: N photos, C channels, S height and width.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from benchmarks.peak import PRODUCTS, count_gflop, decoding_seconds, measure_peak
from benchmarks.rows import Row, cpu_in_turns
from benchmarks.synthetic import make_images
from semco.config import ModelConfig
from semco.data.decode import centre_square
from semco.evaluation.model_file import ModelDescription, SavedModel, save_model
from semco.export.onnx_graph import complete_graph, write_onnx
from semco.export.program import Program
from semco.models import TransformShape, build_network
from semco.predict.predictor import load

PLAIN, EXPORTED = "Pillow and torch in batches of 32", "the exported file in ONNX Runtime"
CLASSES, EMBEDDING, HEADS, AXES, BATCH = 40, 16, ("one_hot", "semantic"), 64, 32


def bench_predict(
    backbone: str = "efficientnet-lite0", size: int = 224, photos: int = 32, threads: int = 1, repeats: int = 3
) -> list[Row]:
    """Return the CPU milliseconds per photo of each way, beside the machine's limit."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measure(Path(folder), make_model(backbone, size), photos, repeats)
    finally:
        torch.set_num_threads(before)


def make_model(backbone: str, size: int) -> SavedModel:
    """Return a semantic probe with random weights."""
    config, shape = ModelConfig(backbone=backbone, pretrained="none"), TransformShape(axes=AXES, has_close_up=True)
    torch.manual_seed(0)
    network = build_network(config, HEADS, CLASSES, EMBEDDING, 3, size, transform=shape).eval().requires_grad_(False)
    assert network.transform is not None
    network.transform.axes.normal_()
    described = ModelDescription(
        class_names=tuple(f"class {k}" for k in range(CLASSES)), image_size=(size, size), channels=3, mean=(0.5,) * 3,
        std=(0.25,) * 3, model=config, heads=HEADS, embedding_dim=EMBEDDING, scale=5.0, groups=tuple(range(CLASSES)),
        eps=0.2, transform=shape, head="average",
    )  # fmt: skip
    return SavedModel(described, network, torch.nn.functional.normalize(torch.randn(CLASSES, EMBEDDING), dim=1))


def make_photos(folder: Path, count: int) -> list[Path]:
    """Write JPEG files whose shorter sides have 256 to 500 pixels."""
    paths = [folder / f"{i}.jpg" for i in range(count)]
    for path, image in zip(paths, make_images(count, 500).permute(0, 2, 3, 1).numpy(), strict=True):
        Image.fromarray(image[: 256 + 244 * int(path.stem) // count]).save(path, quality=85)
    return paths


def _measure(folder: Path, model: SavedModel, count: int, repeats: int) -> list[Row]:
    save_model(folder, model)
    paths, onnx = make_photos(folder, count), folder / "model.onnx"
    write_onnx(onnx, complete_graph(Program(model, branches=True).eval(), model, 5))
    side, ours, exported = max(model.description.image_size), load(folder), load(onnx)
    ways: dict[str, Callable[[], NDArray[np.float32]]] = {
        PLAIN: lambda: predict_plainly(model, paths),
        f"semco predict ({ours.engine.name})": lambda: ours.predict_proba(paths),
        EXPORTED: lambda: exported.predict_proba(paths),
    }
    plain, found, by_export = (way() for way in ways.values())
    assert np.abs(found - by_export).max() < 1e-3
    assert np.abs(found - plain).max() < 0.05  # it decodes at full size
    milliseconds = {name: [1000 * each / count for each in one] for name, one in cpu_in_turns(ways, repeats).items()}
    gflop = count_gflop(lambda: model.network(torch.zeros(1, 3, side, side)))
    limit = 1000 * (decoding_seconds(paths) / count + gflop / measure_peak().gflops)
    return [
        Row(f"prediction of a photo from its file, two views, by {name}", "CPU ms", best, median,
            None if name == PLAIN else milliseconds[PLAIN][0], "" if name == PLAIN else PLAIN,
            limit, f"decoding and {PRODUCTS}")
        for name, (best, median) in milliseconds.items()
    ]  # fmt: skip


@torch.inference_mode()
def predict_plainly(model: SavedModel, paths: Sequence[Path]) -> NDArray[np.float32]:
    """Return the probabilities of photos as most scripts compute them: Pillow, torch layer by layer."""
    described, parts = model.description, []
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (described.mean, described.std))
    for start in range(0, len(paths), BATCH):
        photos = (Image.open(path).convert("RGB") for path in paths[start : start + BATCH])
        squares = np.stack([centre_square(photo, described.image_size[0]) for photo in photos])
        images = torch.from_numpy(squares).permute(0, 3, 1, 2).float() / 255
        parts.append(model.scorer()(model.network((images - mean) / std)).numpy())
    return np.concatenate(parts)
