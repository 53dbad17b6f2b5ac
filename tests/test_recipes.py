"""Recipes are valid, and what goes over what."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from semco.config import Config
from semco.errors import UserError
from semco.config.recipes import RECIPES, configure
from semco.training.schedule import highest_learning_rate


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_a_valid_configuration(name: str) -> None:
    config = configure(name, options={"data": {"source": "photos"}} if RECIPES[name].needs else None)
    assert Config.from_yaml(config.to_yaml()) == config


def test_a_recipe_for_images_that_lie_somewhere_asks_for_them() -> None:
    with pytest.raises(UserError, match=r"'cub200-1000-mu3-semco' needs DATA: give the folder .* of cub200"):
        configure("cub200-1000-mu3-semco")
    assert configure("cub200-1000-mu3-semco", settings=["data.source=birds"]).data.source == "birds"


def test_the_papers_run_is_as_long_as_the_paper_says() -> None:
    config = configure("cifar100-2500-mu7-semco")
    assert config.training.total_steps == 300 * 1024
    assert config.training.mu == 7
    assert config.model.backbone == "wrn-28-2"
    assert config.data.labels == 2500
    assert RECIPES["cifar100-2500-mu7-semco"].published == "31.93±0.01"


def test_defaults_are_those_of_the_paper() -> None:
    config = configure()
    assert config.method.name == "semco"
    assert config.training.total_steps == 300 * 1024
    assert (config.training.batch_size, config.training.mu, config.training.ema_decay) == (64, 3, 0.999)
    assert (config.optim.momentum, config.optim.weight_decay) == (0.9, 5e-4)
    assert highest_learning_rate(config.optim, config.training.total_steps) == 0.03
    assert config.optim.warmup * config.training.total_steps == pytest.approx(10 * 1024)


def test_the_later_wins(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("training: {steps: 7, mu: 2}\nmethod: {name: fixmatch, tau: 0.8}\n")
    config = configure("demo", file, {"training": {"mu": 5}}, ["training.mu=6", "method.tau=0.7"])
    assert config.training.steps == 7
    assert config.training.mu == 6
    assert config.method.name == "fixmatch"
    assert config.method.tau == 0.7
    assert config.data.labels_per_class == 4


def test_one_way_to_say_the_length_replaces_the_other() -> None:
    assert configure("cifar10-250-mu3-semco", options={"training": {"steps": 5}}).training.total_steps == 5
    assert configure("demo", options={"data": {"labels": 50}}).data.labels_per_class is None


def test_another_method_starts_with_its_own_fields() -> None:
    config = configure("semco-no-cotraining", options={"method": {"name": "fixmatch"}})
    assert config.method.name == "fixmatch"
    kept = configure("semco-no-cotraining", options={"method": {"name": "semco"}})
    assert kept.method.lambda_co == 0.0


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("training.steps", "dotted.key=value"),
        ("=3", "dotted.key=value"),
        ("training.stepz=3", "did you mean 'steps'"),
        ("method.tau_x=3", "did you mean 'tau_o'"),
        ("training.steps=many", "training.steps = 'many'"),
        ("labels.eps=lots", "labels.eps = 'lots'"),
        ("optim.schedule=linear", "'cosine'"),
    ],
)
def test_a_bad_setting_is_named(setting: str, expected: str) -> None:
    with pytest.raises(UserError, match=re.escape(expected)):
        configure(settings=[setting])


def test_a_configuration_file_that_is_not_one(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("training: [")
    with pytest.raises(UserError, match="not valid YAML"):
        configure(file=file)
    file.write_text("- a\n- b\n")
    with pytest.raises(UserError, match="mapping"):
        configure(file=file)


def test_paths_are_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "vectors.npy").touch()
    (tmp_path / "cifar10").mkdir()
    config = configure(options={"data": {"source": "photos"}}, settings=["labels.path=vectors.npy", "data.root=gone"])
    assert config.data.source == str(tmp_path / "photos")
    assert config.labels.path == tmp_path / "vectors.npy"
    assert config.data.root == Path("gone")  # where there is nothing, the error is to say what was typed
    assert configure(options={"data": {"source": "cifar10"}}).data.source == "cifar10"
