"""Runs from loaded weights in two processes: the same cache, the same probe, the same weights as in one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from test_distributed import assert_close, config_of, in_processes, train_all

from semco.config import Config, ModelConfig, configure, merge
from semco.experiment import train
from semco.models import build_backbone
from semco.run.folder import RunFolder

# Processes that import torch, on a busy machine.
pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("no_page", "each_probe_is_fitted_once")]


def train_all_with_cache(cache: str, runs: dict[str, str]) -> None:
    os.environ["XDG_CACHE_HOME"] = cache
    train_all(runs)


@pytest.fixture
def configs(tiny_values: dict[str, Any], tmp_path: Path) -> dict[str, Config]:
    """Runs of each mode; the last one is compared with the probe by cross-validation."""
    torch.manual_seed(5)
    weights = tmp_path / "weights.safetensors"
    save_file(build_backbone(ModelConfig(backbone="wrn-10-1"), 1, 8).state_dict(), weights)
    model = {"backbone": "wrn-10-1", "weights": str(weights), "cached_views": 2}
    own = {"model": model, "training": {"steps": 4, "checkpoint_every": 4}}
    modes: dict[str, dict[str, Any]] = {mode: {"model": {"tune": mode}} for mode in ("all", "top", "heads")}
    modes["folds"] = {"model": {"tune": "heads"}, "data": {"validation": "none"}}
    return {name: config_of(merge(merge(tiny_values, own), fields), "fixmatch") for name, fields in modes.items()}


def test_two_processes_compute_what_one_does(
    configs: dict[str, Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in ("one", "two"):
        (tmp_path / f"cache-{count}").mkdir()
    runs = {str(tmp_path / f"two-{name}"): config.to_yaml() for name, config in configs.items()}
    in_processes(2, train_all_with_cache, str(tmp_path / "cache-two"), runs)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-one"))
    for name, config in configs.items():
        train(config, tmp_path / f"one-{name}")
        assert_close(tmp_path / f"one-{name}", tmp_path / f"two-{name}")
        one, two = (RunFolder(tmp_path / f"{count}-{name}").result() for count in ("one", "two"))
        assert one.probe == two.probe
        assert one.test_accuracy == two.test_accuracy
    files = [sorted(tmp_path.glob(f"cache-{count}/semco/features/*/features.*")) for count in ("one", "two")]
    assert [file.read_bytes() for file in files[0]] == [file.read_bytes() for file in files[1]]
    assert len(files[0]) == 4  # training and test images for top and heads


def test_a_head_is_fitted_in_one_of_the_processes_and_all_have_it(
    configs: dict[str, Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a plan, which only the main process makes."""
    values = configs["folds"].model_dump(mode="json")
    over = {"method": {"name": "semantic_probe"}, "training": {"steps": None, "minutes": 10}}
    config = configure(options=merge(values, over))
    for count in ("one", "two"):
        (tmp_path / f"cache-{count}").mkdir()
    in_processes(2, train_all_with_cache, str(tmp_path / "cache-two"), {str(tmp_path / "two"): config.to_yaml()})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-one"))
    one, two = train(config, tmp_path / "one"), RunFolder(tmp_path / "two").result()
    assert (one.accuracy, one.probe, one.heads) == (two.accuracy, two.probe, two.heads)
    first, second = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("one", "two"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
