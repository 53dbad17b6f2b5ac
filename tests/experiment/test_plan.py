"""The plan of a run: what fits into the minutes, computed by hand from given step times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from semco.config import Config, ModelConfig, configure, merge
from semco.errors import duration
from semco.experiment import plan as plans
from semco.experiment import train
from semco.experiment.plan import MOST_STEPS, Plan, StepTimer, grown, make_plan, with_length, with_plan_of
from semco.experiment.problem import Problem, prepare
from semco.models import build_backbone
from semco.run.folder import RunFolder
from semco.training.observer import NullObserver

pytestmark = pytest.mark.usefixtures("no_page")
CPU = torch.device("cpu")
Make = Callable[..., Config]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    save_file(build_backbone(ModelConfig(backbone="wrn-10-1"), 1, 8).state_dict(), tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


@pytest.fixture
def make_config(tiny_values: dict[str, Any]) -> Make:
    """Configurations without a length, of which each class has four labels and no image is held out."""

    def make(**over: Any) -> Config:
        own = {"data": {"labels_per_class": 4, "validation": "none"}, "training": {"steps": None}}
        own |= {"model": {"backbone": "wrn-10-1"}}
        return configure(options=merge(merge(tiny_values, own), over))

    return make


def problem_of(config: Config) -> Problem:
    return prepare(config, None, NullObserver())


def with_times(monkeypatch: pytest.MonkeyPatch, steps: dict[str, float], frozen: float = 0.0) -> None:
    """Let a step take so many seconds, by the layers that are trained, and the frozen layers so many."""
    monkeypatch.setattr(StepTimer, "step_seconds", lambda self: steps[self._config.model.tune])
    monkeypatch.setattr(StepTimer, "frozen_seconds", lambda _: frozen)


def test_from_scratch_as_many_steps_as_fit(make_config: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config()
    with_times(monkeypatch, {"auto": 0.5})
    plan = make_plan(config, problem_of(config), CPU, minutes=2)
    assert plan.config.training.steps == 240  # 120 s of 0.5 s
    assert plan.seconds == 120
    assert plan.config.model.tune == "auto"


def test_a_given_length_is_kept(make_config: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(training={"steps": 7})
    with_times(monkeypatch, {"auto": 1000.0})
    plan = make_plan(config, problem_of(config), CPU, minutes=2)
    assert plan.config == config
    assert plan.seconds == 7000
    assert plan.lines()[-1].startswith("this takes more than an hour")


def test_at_least_some_steps(make_config: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config()
    with_times(monkeypatch, {"auto": 100.0})
    assert make_plan(config, problem_of(config), CPU, minutes=1).config.training.steps == plans.FEWEST_STEPS


@pytest.mark.parametrize(
    ("minutes", "steps"),
    [
        (10, 600),  # they fit easily, and 600 are the most
        (1, 75),  # (60 - 30) / (4 * 0.1): the run is repeated for 3 folds, and 30 s go to the frozen layers
    ],
)
def test_from_loaded_weights_the_heads_are_trained(
    minutes: float, steps: int, make_config: Make, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(model={"weights": str(weights)})
    with_times(monkeypatch, {"heads": 0.1}, frozen=30.0)
    plan = make_plan(config, problem_of(config), CPU, minutes)
    assert (plan.config.model.tune, plan.config.training.steps) == ("heads", steps)
    assert plan.seconds <= 60 * minutes


def test_the_layers_that_were_asked_for_are_trained(
    make_config: Make, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(model={"weights": str(weights), "tune": "all"})
    with_times(monkeypatch, {"all": 10.0})
    plan = make_plan(config, problem_of(config), CPU, minutes=10)
    assert (plan.config.model.tune, plan.config.training.steps) == ("all", 60)


def test_the_plan_in_words(make_config: Make) -> None:
    config = make_config(training={"steps": 100, "batch_size": 8, "mu": 2}, data={"image_size": 8})
    first, second = Plan(config, step_seconds=0.6, frozen_seconds=30.0, repeats=1).lines()
    assert first == "plan: wrn-10-1 (from scratch), training all layers, at 8 x 8 pixels"
    rest = "reading the images, the evaluation and the report come on top"
    images = "plan: 100 steps of 8 labelled and 16 unlabelled images"
    assert second == f"{images}; at least 2 min here for the frozen layers and the steps; {rest}"
    assert Plan(config, step_seconds=0.6, frozen_seconds=0.0, repeats=4).lines()[1] == (
        f"{images}; at least 4 min here for the steps, 4 times to compare with the linear probe; {rest}"
    )


def test_processes_share_the_images_of_a_step(make_config: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(training={"batch_size": 16})
    monkeypatch.setattr(StepTimer, "_time_step", lambda _, batch_size: 0.1 * batch_size)
    alone, shared = (make_plan(config, problem_of(config), CPU, minutes=2, processes=count) for count in (1, 2))
    assert (alone.config.training.steps, shared.config.training.steps) == (75, 150)  # of 1.6 s and of 0.8 s
    assert "unlabelled images in 2 processes; at least 2 min here" in shared.lines()[1]
    assert "processes" not in alone.lines()[1]


@pytest.mark.parametrize("tune", ["all", "top", "heads"])
def test_a_step_is_timed_on_the_real_network(tune: str, make_config: Make, weights: Path) -> None:
    config = make_config(model={"weights": str(weights), "tune": tune}, training={"batch_size": 4})
    timer = StepTimer(config, problem_of(config), CPU)
    assert 0 < timer.step_seconds() < 60
    assert (timer.frozen_seconds() > 0) is (tune != "all")


def test_only_images_that_are_not_stored_pass_the_frozen_layers(
    make_config: Make, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "shortest_time", lambda *_: plans.TIMED_IMAGES * 0.5)  # half a second per image
    monkeypatch.setattr("semco.experiment.model.cache_folder", lambda _: tmp_path / "cache")

    def seconds(views: int) -> float:
        config = make_config(model={"weights": str(weights), "tune": "heads", "cached_views": views})
        return StepTimer(config, problem_of(config), CPU).frozen_seconds()

    assert seconds(2) == 0.5 * (160 * 5 + 80)
    config = make_config(model={"weights": str(weights), "tune": "heads", "cached_views": 2}, training={"steps": 1})
    train(config, tmp_path / "run")
    assert seconds(2) == 0
    assert seconds(3) == 0.5 * 160 * 7  # the test images have no such views


def test_a_planned_run_saves_what_was_chosen(
    make_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_times(monkeypatch, {"auto": 20.0})
    result = train(make_config(), tmp_path / "run", minutes=0.1)
    saved = RunFolder(tmp_path / "run").config()
    assert result.steps == saved.training.steps == plans.FEWEST_STEPS
    assert with_plan_of(make_config(), saved) == saved


def test_a_method_without_steps_is_not_timed(
    make_config: Make, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semco.experiment.runs.make_plan", lambda *_: pytest.fail("timed"))
    said: list[str] = []
    observer = NullObserver()
    monkeypatch.setattr(observer, "on_message", said.append)
    config = make_config(method={"name": "linear_probe"}, model={"weights": str(weights)})
    train(config, tmp_path / "run", observer, minutes=1)
    assert [line for line in said if line.startswith("plan")] == [
        "plan: linear_probe on the features of wrn-10-1; no training steps"
    ]


def test_comparisons_from_loaded_weights_have_a_length(make_config: Make, weights: Path) -> None:
    assert with_length(make_config(model={"weights": str(weights)})).training.steps == MOST_STEPS
    assert with_length(make_config(model={"weights": str(weights)}, training={"steps": 5})).training.steps == 5
    assert with_length(make_config()).training.steps is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (89, "89 s"), (90, "2 min"), (840, "14 min"), (5400, "1.5 h"), (9e4, "25.0 h"), (1e6, "12 days")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("small", "double", "expected"),
    [
        (1.0, 2.0, 16.0),  # in proportion to the images
        (1.0, 1.1, 2.5),  # 0.9 s for each step and 0.1 s for the images of the small one
        (1.0, 0.9, 0.9),  # more images seem to take less time: the images cost nothing that can be seen
        (0.1, 2.0, 16.0),  # the small one seems too short: at most in proportion to the larger one
    ],
)
def test_the_duration_of_a_step_from_two_small_ones(small: float, double: float, expected: float) -> None:
    assert grown(small, double, 16) == pytest.approx(expected)
