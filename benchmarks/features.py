"""CPU time from the files of photos to the features of their two views: ours and a plain loop, in turns.

Ours is what a run does: decoding in threads, views, frozen layers in the fastest engine, a file of features.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from benchmarks.peak import PRODUCTS, best_cpu_seconds, count_gflop, decoding_seconds, measure_peak
from benchmarks.predict import BATCH, PLAIN, make_photos
from benchmarks.rows import Row, cpu_in_turns
from semco.config import AugmentConfig, DataConfig, ModelConfig
from semco.data.decode import centre_square
from semco.data.inputs import ImageInputs
from semco.data.pixels import read_listing
from semco.data.sources import list_source
from semco.data.views import Augment
from semco.models import build_backbone
from semco.models.backbone import close_up, features_of_views
from semco.models.engines import LayerEngine, compile_layers, installed_engines
from semco.training.features import CloseUpInputs, FeatureFile

CPU, MEAN, STD = torch.device("cpu"), 0.5, 0.25


def bench_features(
    backbone: str = "efficientnet-lite0", size: int = 224, photos: int = 100, threads: int = 1, repeats: int = 3
) -> list[Row]:
    """Return the CPU milliseconds per photo, beside two limits: the engine alone and matrix products at peak."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measure(Path(folder), backbone, size, photos, repeats)
    finally:
        torch.set_num_threads(before)


def _measure(folder: Path, backbone: str, size: int, count: int, repeats: int) -> list[Row]:
    layers = build_backbone(ModelConfig(backbone=backbone, pretrained="none"), 3, size).eval().requires_grad_(False)
    engine = fastest_engine()
    compiled = compile_layers(layers, (3, size, size), engine)
    photos = folder / "photos"
    for name in ("one", "other"):  # classes
        (photos / name).mkdir(parents=True)
    paths = make_photos(photos / "one", count)
    for path in paths[::2]:
        path.rename(photos / "other" / path.name)
    paths = sorted(photos.rglob("*.jpg"))
    turn = itertools.count()
    ways = {
        "ours": lambda: compute_features(compiled, photos, size, folder / f"features {next(turn)}"),
        "plain": lambda: compute_plainly(layers, paths, size),
    }
    expected, found = ways["plain"](), ways["ours"]()
    assert expected.shape == found.shape
    seconds = {name: tuple(1000 * each / count for each in one) for name, one in cpu_in_turns(ways, repeats).items()}
    decoding = 1000 * decoding_seconds(paths) / count
    images = torch.rand(BATCH, 3, size, size)
    with torch.inference_mode():
        alone = 1000 * best_cpu_seconds(lambda: compiled(images), 3) / BATCH
        peak = 1000 * count_gflop(lambda: layers(images[:1])) / measure_peak().gflops
    best, median = seconds["ours"]
    plain = (seconds["plain"][0], PLAIN)
    what, unit = f"features of two views of a photo from its file ({engine})", "CPU ms"
    return [
        Row(what, unit, best, median, *plain, decoding + 2 * alone, "decoding and the engine alone"),
        Row(what, unit, best, median, *plain, decoding + 2 * peak, f"decoding and {PRODUCTS}"),
    ]


def fastest_engine() -> LayerEngine:
    """Return the engine that a run uses for many images."""
    engines: tuple[LayerEngine, ...] = ("openvino", "onnx", "torch")
    return next(name for name in engines if name in installed_engines())


def compute_features(layers: nn.Module, photos: Path, size: int, folder: Path) -> Tensor:
    """Return the features (N, 2, F) of photos as a run computes and stores them."""
    config = DataConfig(source=str(photos), image_size=size)
    listing = list_source(config)
    images = read_listing("photos", listing, config).train_images
    colours = torch.full((3,), 1.0)
    plain = ImageInputs(images, Augment(AugmentConfig(), MEAN * colours, STD * colours), CPU)
    with torch.inference_mode():
        shape = tuple(layers(plain.plain(torch.zeros(1, dtype=torch.int64))).shape[1:])
    each = []
    for name, inputs in (("plain", plain), ("close-up", CloseUpInputs(plain))):
        file = FeatureFile(folder / name, len(images), 0, shape)
        file.compute(layers, inputs, CPU, lambda *_: None)
        each.append(torch.from_numpy(np.array(file.open()[:, 0])))
    return torch.stack(each, dim=1)


@torch.inference_mode()
def compute_plainly(layers: nn.Module, paths: Sequence[Path], size: int) -> Tensor:
    """Return the same as most scripts compute it: Pillow, torch layer by layer."""
    parts = []
    for start in range(0, len(paths), BATCH):
        photos = (Image.open(path).convert("RGB") for path in paths[start : start + BATCH])
        squares = np.stack([centre_square(photo, size) for photo in photos])
        images = (torch.from_numpy(squares).permute(0, 3, 1, 2).float() / 255 - MEAN) / STD
        parts.append(features_of_views(layers, images, True, close_up))
    return torch.cat(parts)
