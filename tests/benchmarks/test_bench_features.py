"""The measurement of features: both ways compute the same."""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.features import bench_features, compute_features, compute_plainly
from benchmarks.predict import make_photos
from semco.config import ModelConfig
from semco.models import build_backbone


def test_the_features_are_those_of_the_plain_loop(tmp_path: Path) -> None:
    layers = build_backbone(ModelConfig(backbone="wrn-10-1", pretrained="none"), 3, 32).eval().requires_grad_(False)
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        make_photos(tmp_path / "photos" / name, 2)
    ours = compute_features(layers, tmp_path / "photos", 32, tmp_path / "features")
    plain = compute_plainly(layers, sorted((tmp_path / "photos").rglob("*.jpg")), 32)
    assert ours.shape == plain.shape == (4, 2, 64)
    assert not torch.equal(ours[:, 0], ours[:, 1])
    assert (ours - plain).abs().max() < 0.1 * plain.abs().max()  # the plain loop decodes at full size


def test_two_limits_are_measured() -> None:
    engine, products = bench_features("wrn-10-1", size=32, photos=4, repeats=1)
    assert (engine.best, engine.alternative) == (products.best, products.alternative)
    assert engine.limit is not None
    assert products.limit is not None
    assert products.limit > 0
    assert engine.limited_by != products.limited_by
