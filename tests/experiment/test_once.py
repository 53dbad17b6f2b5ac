"""What a run builds, reads and hashes, it does once: the plan, the run and its folds share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from semco.config import Config, ModelConfig, configure, merge
from semco.data.storage.chunks import ChunkedFile
from semco.experiment import loading, train
from semco.experiment.plan import FEWEST_STEPS, StepTimer
from semco.models import build_backbone, network
from semco.run import seal
from semco.run.folder import RunFolder
from semco.run.identity import changes_of_run, experiment_fields
from semco.training.loop import Trainer
from tests.conftest import CLASSES, tiny_images
from tests.experiment.same_runs import assert_same_run

TRAINING, TEST = (4 * 8, 3, 8, 8), (4 * 2, 3, 8, 8)  # shapes of the images


@pytest.fixture
def request_from_weights(tiny_values: dict[str, Any], tmp_path: Path) -> Config:
    """A photo run of a number of minutes from given weights, without images that are held out."""
    random = np.random.default_rng(0)
    for part, count in (("photos", 8), ("photos/test", 2)):
        for name in CLASSES:
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(count):
                Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(
                    tmp_path / part / name / f"{i}.png"
                )
    weights = tmp_path / "weights.safetensors"
    torch.manual_seed(0)
    save_file(build_backbone(ModelConfig(backbone="tiny"), 3, 8).state_dict(), weights)
    own = {
        "data": {"source": str(tmp_path / "photos"), "validation": "none"},
        "model": {"weights": str(weights), "cached_views": 1},
        "training": {"steps": None, "minutes": 1},
    }
    return configure(options=merge(tiny_values, own))


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counter[str]:
    """How often something was done from now on; a step takes no time, and is said to take ten seconds."""
    done: Counter[str] = Counter()

    def count(holder: object, name: str, what: Callable[..., str]) -> None:
        original = getattr(holder, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            done[what(*arguments)] += 1
            return original(*arguments, **named)

        monkeypatch.setattr(holder, name, counted)

    count(loading, "load", lambda *_: "data read")
    count(network, "load_weights", lambda *_: "weights loaded")
    count(seal, "image_digest", lambda images: f"pixels hashed {tuple(images.shape)}")
    count(ChunkedFile, "finished", lambda file: f"checked {file.data.name}")
    count(Trainer, "run", lambda _: "trained")
    monkeypatch.setattr("semco.experiment.inputs.cache_folder", lambda _: tmp_path / "cache")
    monkeypatch.setattr(StepTimer, "step_seconds", lambda _: 10.0)
    return done


@pytest.mark.usefixtures("no_page")
def test_a_fitted_run_does_everything_once(request_from_weights: Config, counts: Counter[str], tmp_path: Path) -> None:
    train(request_from_weights, tmp_path / "run")
    assert counts == {
        "data read": 1,
        "weights loaded": 1,
        f"pixels hashed {TRAINING}": 1,
        f"pixels hashed {TEST}": 1,
        "checked features.f32": 4,  # a plain view and a close-up of training and test images
    }


@pytest.mark.usefixtures("no_page")
def test_a_photo_run_with_a_plan_and_folds_does_everything_once(
    request_from_weights: Config, counts: Counter[str], tmp_path: Path
) -> None:
    values = request_from_weights.model_dump(mode="json")
    request_from_weights = configure(options=values | {"method": {"name": "semco_plus"}})
    expected = {
        "data read": 1,
        "weights loaded": 1,
        f"pixels hashed {TRAINING}": 1,
        f"pixels hashed {TEST}": 1,
        "checked features.f16": 1,  # views of the training images
        "checked features.f32": 1,  # the test images
        "trained": 1 + 3,  # the run and its folds
    }
    assert train(request_from_weights, tmp_path / "first").steps == FEWEST_STEPS
    assert counts == expected
    counts.clear()
    train(request_from_weights, tmp_path / "second")  # finds the outputs of the frozen layers
    assert counts == expected


@pytest.mark.usefixtures("no_page")
def test_a_run_on_the_file_is_the_run_in_memory(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "stored"))
    for folder, seed in (("photos", 0), ("photos/test", 1)):
        for number, (pixels, label) in enumerate(zip(*tiny_images(10, seed), strict=True)):
            place = tmp_path / folder / CLASSES[label]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(place / f"{number}.png")
    configs = {}
    for where, memory in (("memory", 512), ("cache", 0)):
        data = {"source": str(tmp_path / "photos"), "memory": memory}
        configs[where] = configure(options=merge(tiny_values, {"data": data, "training": {"steps": 4}}))
        train(configs[where], tmp_path / where)
    assert_same_run(tmp_path / "memory", tmp_path / "cache")
    assert len(list((tmp_path / "stored").rglob("pixels.u8"))) == 2
    memory, cache = (RunFolder(tmp_path / where).config().model_dump(mode="json") for where in configs)
    assert changes_of_run(memory, cache) == {}
    assert experiment_fields(memory) == experiment_fields(cache)
