"""The plan of a run: what fits into the minutes, computed by hand from given step times."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from semco.config import Config, ModelConfig, configure, merge
from semco.distributed.processes import Processes
from semco.errors import duration
from semco.evaluation.model_file import load_model
from semco.experiment import plan as plans
from semco.experiment import train
from semco.experiment.context import Context
from semco.experiment.cross_validation import Measured
from semco.experiment.plan import Speed, StepTimer, describe_plan, grown, measure_speed, with_default_minutes
from semco.models import build_backbone
from semco.run.folder import RunFolder
from semco.training.observer import NullObserver
from tests.experiment.contexts import context_of

pytestmark = pytest.mark.usefixtures("no_page")
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
        own |= {"model": {"backbone": "wrn-10-1"}, "method": {"name": "semco_plus"}}
        return configure(options=merge(merge(tiny_values, own), over))

    return make


class Said(NullObserver):
    """Records messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def on_message(self, text: str) -> None:
        self.messages.append(text)


def with_times(monkeypatch: pytest.MonkeyPatch, step: float, frozen: float = 0.0) -> None:
    """Let a step take so many seconds, and the frozen layers so many."""
    monkeypatch.setattr(StepTimer, "step_seconds", lambda _: step)
    monkeypatch.setattr(StepTimer, "frozen_seconds", lambda _: frozen)


@pytest.mark.parametrize(
    ("speed", "minutes", "most", "steps"),
    [
        (Speed(0.5, 0.0, repeats=1), 2, 10**6, 240),  # 120 s of 0.5 s
        (Speed(100.0, 0.0, repeats=1), 1, 10**6, plans.FEWEST_STEPS),
        (Speed(0.1, 30.0, repeats=4), 10, 600, 600),  # they fit easily, and 600 are the most
        # (60 - 30) / (4 * 0.1): the run is repeated for 3 folds, and 30 s go to the frozen layers
        (Speed(0.1, 30.0, repeats=4), 1, 600, 75),
        (Speed(0.1, 90.0, repeats=4), 1, 600, plans.FEWEST_STEPS),  # the frozen layers alone take longer
    ],
)
def test_as_many_steps_as_fit(speed: Speed, minutes: float, most: int, steps: int) -> None:
    assert speed.steps_in(minutes, most) == steps
    assert speed.seconds(steps) <= 60 * minutes or steps == plans.FEWEST_STEPS


@pytest.mark.parametrize(
    ("over", "repeats"),
    [
        ({}, 1),  # from scratch there is no probe to compare with
        ({"model": {"tune": "heads"}}, 4),
        ({"model": {"tune": "top"}}, 3),
        ({"model": {"tune": "all"}}, 1),
        ({"model": {"tune": "heads"}, "data": {"validation": "train"}}, 1),  # the validation images decide
    ],
)
def test_a_run_from_loaded_weights_is_repeated_for_each_fold(
    over: dict[str, Any], repeats: int, make_config: Make, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_times(monkeypatch, 0.1, frozen=30.0)
    loaded = {"model": {"weights": str(weights)}} if "model" in over else {}
    assert measure_speed(context_of(make_config(**merge(loaded, over)))) == Speed(0.1, 30.0, repeats)


@pytest.mark.parametrize("length", [{"steps": 7}, {"epochs": 0.5}, {"minutes": 3}])
def test_a_given_length_is_kept(length: dict[str, float], make_config: Make) -> None:
    config = make_config(training=length)
    assert with_default_minutes(config) == config
    assert with_default_minutes(make_config(), 4).training.minutes == 4
    assert with_default_minutes(make_config()).training.minutes == plans.MINUTES


def test_the_plan_in_words(make_config: Make) -> None:
    over = {"training": {"steps": 100, "batch_size": 8, "mu": 2}, "data": {"image_size": 8}, "model": {"tune": "all"}}
    config = make_config(**over)
    first, second = describe_plan(config, Speed(0.6, 30.0, repeats=1))
    assert first == "plan: wrn-10-1 (from scratch), training all layers, at 8 x 8 pixels"
    rest = "reading the images, the evaluation and the report come on top"
    images = "plan: 100 steps of 8 labelled and 16 unlabelled images"
    assert second == f"{images}; at least 2 min here for the frozen layers and the steps; {rest}"
    assert describe_plan(config, Speed(0.6, 0.0, repeats=4))[1] == (
        f"{images}; at least 4 min here for the steps, 4 times to compare with the linear probe; {rest}"
    )
    assert describe_plan(config, Speed(0.6, 0.0, repeats=1), processes=2)[1] == (
        f"{images} in 2 processes; at least 60 s here for the steps; {rest}"
    )
    assert describe_plan(config, Speed(100.0, 0.0, repeats=1))[-1].startswith("this takes more than an hour")


def test_processes_share_the_images_of_a_step(make_config: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(training={"batch_size": 16})
    monkeypatch.setattr(StepTimer, "_time_step", lambda _, batch_size: 0.1 * batch_size)
    for world_size, seconds in ((1, 1.6), (2, 0.8)):
        context = context_of(config, Processes(world_size=world_size))
        assert measure_speed(context).step_seconds == pytest.approx(seconds)


@pytest.mark.parametrize("tune", ["all", "top", "heads"])
def test_a_step_is_timed_on_the_real_network(tune: str, make_config: Make, weights: Path) -> None:
    config = make_config(model={"weights": str(weights), "tune": tune}, training={"batch_size": 4})
    timer = StepTimer(context_of(config))
    assert 0 < timer.step_seconds() < 60
    assert (timer.frozen_seconds() > 0) is (tune != "all")


def test_only_images_that_are_not_stored_pass_the_frozen_layers(
    make_config: Make, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "shortest_time", lambda *_: plans.TIMED_IMAGES * 0.5)  # half a second per image
    monkeypatch.setattr("semco.experiment.inputs.cache_folder", lambda _: tmp_path / "cache")

    def seconds(views: int) -> float:
        config = make_config(model={"weights": str(weights), "tune": "heads", "cached_views": views})
        return StepTimer(context_of(config)).frozen_seconds()

    assert seconds(2) == 0.5 * (160 * 5 + 80)
    config = make_config(model={"weights": str(weights), "tune": "heads", "cached_views": 2}, training={"steps": 1})
    train(config, tmp_path / "run")
    assert seconds(2) == 0
    assert seconds(3) == 0.5 * 160 * 7  # the test images have no such views


@pytest.mark.parametrize("step_seconds", [20.0, 0.2])
def test_a_planned_run_saves_what_was_chosen(
    step_seconds: float, make_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_times(monkeypatch, step_seconds)
    observer, request = Said(), make_config(training={"minutes": 0.1})
    result = train(request, tmp_path / "run", observer)
    run = RunFolder(tmp_path / "run")
    assert run.request() == request
    training = run.config().training
    steps = training.steps
    # 6 s of 0.2 s, less what has passed since the start
    assert steps == plans.FEWEST_STEPS if step_seconds > 1 else plans.FEWEST_STEPS <= steps <= 30
    assert result.steps == steps
    assert any("this does not fit into" in line for line in observer.messages) == (step_seconds > 1)
    assert (training.minutes, training.log_every) == (None, 1)
    assert any(line.startswith(f"plan: {steps} steps of 8 labelled") for line in observer.messages)


def test_a_method_without_steps_is_not_timed(
    make_config: Make, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semco.experiment.runs.measure_speed", lambda *_: pytest.fail("timed"))
    observer = Said()
    over = {"method": {"name": "linear_probe"}, "model": {"weights": str(weights)}, "training": {"minutes": 1}}
    train(make_config(**over), tmp_path / "run", observer)
    plan = [line for line in observer.messages if line.startswith("plan")]
    assert len(plan) == 1
    assert plan[0].startswith("plan: the plain view of each photo through wrn-10-1, about ")


@pytest.mark.parametrize(
    ("seconds_per_view", "seconds_per_fit", "folds", "is_close_up", "fits"),
    [
        (10.0, 0.0, 5, True, True),
        (10.0, 10.0, 2, True, True),  # 20 + 60 s are too long, 20 + 30 s are not
        (25.0, 5.0, 2, False, True),  # 50 + 15 s, 25 + 15 s
        (25.0, 0.0, 2, False, True),  # whole passes take 1.2 times as long as the timed ones: 60 s are too long
        (28.5, 0.0, 2, False, True),  # 57 s and three seconds for the rest
        (40.0, 0.0, 2, False, True),
        (70.0, 0.0, 2, False, False),
    ],
)
def test_minutes_decide_how_many_views_and_folds_a_fitted_head_has(
    seconds_per_view: float,
    seconds_per_fit: float,
    folds: int,
    is_close_up: bool,
    fits: bool,
    make_config: Make,
    weights: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def frozen_seconds(timer: StepTimer) -> float:
        return seconds_per_view * (1 + timer._context.inputs.config.method.has_close_up)

    def fit_seconds(context: Context) -> float:
        return seconds_per_fit * (1 + context.config.evaluation.folds)

    monkeypatch.setattr(StepTimer, "frozen_seconds", frozen_seconds)
    monkeypatch.setattr(plans, "fit_seconds", fit_seconds)
    monkeypatch.setattr(Measured, "is_probe_better", lambda _: False)
    observer = Said()
    over = {"method": {"name": "semantic_probe"}, "model": {"weights": str(weights)}, "training": {"minutes": 1}}
    train(make_config(**over), tmp_path / "run", observer, started=time.monotonic())
    config = RunFolder(tmp_path / "run").config()
    assert (config.evaluation.folds, config.method.has_close_up) == (folds, is_close_up)
    model = load_model(tmp_path / "run" / "model")
    assert model.network.transform is not None
    assert model.network.transform.has_close_up is is_close_up
    assert any("this does not fit into" in line for line in observer.messages) is not fits


@pytest.mark.parametrize(
    ("left", "seconds", "sentence"),
    [
        (2.96, 3.01, "this does not fit into the 2.9 s that are left: it takes 3.1 s at least; "),
        (59.6, 60.4, "this does not fit into the 59 s that are left: it takes 61 s at least; "),
        (125.0, 130.0, "this does not fit into the 2 min that are left: it takes 3 min at least; "),
        (5390.0, 5410.0, "this does not fit into the 89 min that are left: it takes 1.6 h at least; "),
        (-2.0, 3.01, "this does not fit into the 0.0 s that are left: it takes 3.1 s at least; "),
    ],
)
def test_what_does_not_fit_takes_longer_than_what_is_left(left: float, seconds: float, sentence: str) -> None:
    assert plans.too_long(seconds, left / 60).startswith(sentence)


def test_a_faster_backbone_is_named_where_there_is_one() -> None:
    def advice(**fields: Any) -> str:
        return plans.too_long(90, 1, plans.faster_backbone(ModelConfig(**fields)))

    name = "model.backbone=efficientnet-lite0"
    assert advice(backbone="efficientnet-lite2").endswith(f"a smaller data.image_size, or {name}, take less")
    assert name not in advice(backbone="efficientnet-lite0")
    assert name not in advice(backbone="efficientnet-lite2", weights=Path("own.safetensors"))
    assert name not in advice(backbone="wrn-28-2")


def test_the_time_of_fits_by_hand(
    make_config: Make, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def fit_views(context: Context, _minutes: float) -> tuple[Config, list[str]]:
        split, classes = context.problem.split, context.problem.dataset.num_classes
        labels, width = len(split.labelled), context.problem.num_features
        assert labels < width
        probe = 50 * labels * labels * classes  # the choice of its penalty takes four fits, then all labels, 5 folds
        head = 100 * (labels + len(split.unlabelled)) * width * classes  # all labels, 5 folds
        found.append(plans.fit_seconds(context) / ((10 * probe + 6 * head) / 1e10))
        return context.config, []

    monkeypatch.setattr("semco.experiment.runs.fit_views", fit_views)
    over = {"method": {"name": "semantic_probe"}, "model": {"weights": str(weights)}, "training": {"minutes": 1}}
    train(make_config(**over), tmp_path / "run")
    assert found == [pytest.approx(1.0)]


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
