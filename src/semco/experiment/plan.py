"""How many steps fit into the minutes that the user gives: a few passes are timed on this machine."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor

from semco.config import REGISTERED_DATASETS, Config, ModelConfig
from semco.data.batches import Batches
from semco.errors import duration
from semco.experiment.context import Context
from semco.experiment.judge import folds_of
from semco.methods import FittedMethod
from semco.models import Network, has_weights
from semco.models.averaging import ema_copy
from semco.models.pretrained import published_name
from semco.resolve.rules import with_value
from semco.training.execution import shortest_time
from semco.training.features import FeatureFile
from semco.training.forward import NetworkForward
from semco.types import Progress, Views

FEWEST_STEPS = 20
# Minutes of a run for which no length was given.
MINUTES = 15.0
# Labelled images of a timed step, and images of a timed pass through frozen layers.
TIMED_LABELLED, TIMED_IMAGES = 2, 8
HOUR = 3600.0
# Folds that are kept for the accuracy when minutes are short, and the fastest backbone with published weights.
FEWEST_FOLDS, FASTEST = 2, "efficientnet-lite0"
# Passes over the labelled photos of a linear probe; choosing its penalty takes as long as so many fits. Multiplications
# per second of a fit on one core.
PROBE_PASSES, PROBE_CHOICE, FIT_RATE = 50, 4, 1e10
# Seconds for the vectors of similar class names, the pseudo-labels, the model and the report of a fitted head.
REST = 3.0
# A pass over all photos also reads and prepares them: 1.15 times the timed pass in a run on 720 photos.
WHOLE_PASS = 1.2


def starts_from_weights(source: str) -> bool:
    """Return whether a run on this data starts from pretrained weights by default: photos do."""
    known = REGISTERED_DATASETS.get(source)
    return known.is_photos if known is not None else Path(source).is_dir()


def with_default_minutes(request: Config, minutes: float = MINUTES) -> Config:
    """Return a request that gives no length with a number of minutes."""
    training = request.training
    if training.steps is not None or training.epochs is not None or training.minutes is not None:
        return request
    return request.model_copy(update={"training": training.model_copy(update={"minutes": minutes})})


def with_steps(request: Config, steps: int) -> Config:
    """Return a request with a number of steps in place of minutes."""
    training = request.training.model_copy(update={"steps": steps, "minutes": None})
    return request.model_copy(update={"training": training})


@dataclass(frozen=True)
class Speed:
    """How long the parts of a run take on this machine."""

    step_seconds: float
    frozen_seconds: float  # for the outputs of the frozen layers, unless they are stored
    repeats: int  # the run and those of the cross-validation

    def steps_in(self, minutes: float, most: int) -> int:
        """Return how many steps fit into the minutes, between `FEWEST_STEPS` and ``most``."""
        fit = int((60 * minutes - self.frozen_seconds) / (self.step_seconds * self.repeats))
        return max(FEWEST_STEPS, min(most, fit))

    def seconds(self, steps: int) -> float:
        """Return the minimum duration of a run with this many steps."""
        return self.frozen_seconds + self.step_seconds * self.repeats * steps


def measure_speed(context: Context) -> Speed:
    """Time a step and a pass through the frozen layers."""
    timer = StepTimer(context)
    return Speed(timer.step_seconds(), timer.frozen_seconds(), 1 + _folds(context))


def describe_plan(config: Config, speed: Speed, processes: int = 1) -> list[str]:
    """Return what a run will do and how long it takes, in two sentences, and a warning above an hour."""
    model, training, size = config.model, config.training, config.data.image_size
    weights = "pretrained" if has_weights(model) else "from scratch"
    parts = {"all": "all layers", "top": "the last stages and the heads", "heads": "the heads"}
    seconds = speed.seconds(training.total_steps)
    lines = [
        f"plan: {model.backbone} ({weights}), training {parts[model.tune]}"
        + (f", at {size} x {size} pixels" if size else ""),
        f"plan: {training.total_steps:,} steps of {training.batch_size} labelled and "
        f"{training.mu * training.batch_size} unlabelled images"
        + (f" in {processes} processes" if processes > 1 else "")
        + f"; at least {duration(seconds)} here for {_covered(speed)}; reading the images, the evaluation "
        "and the report come on top",
    ]
    if seconds > HOUR:
        lines.append(
            f"this takes more than an hour; fewer steps than {training.total_steps:,} or fewer minutes make it shorter"
        )
    return lines


def fit_views(context: Context, minutes: float) -> tuple[Config, list[str]]:
    """Return the configuration of a head that is fitted, with the views and folds that fit into the minutes, and the
    plan. What does not fit is left out in this order: folds, down to `FEWEST_FOLDS`, then the close-up.
    """
    config, limit = context.config, 60 * minutes - REST
    frozen = WHOLE_PASS * StepTimer(context).frozen_seconds()
    if frozen + fit_seconds(context) > limit and config.evaluation.folds > FEWEST_FOLDS:
        config = with_value(config, "evaluation.folds", FEWEST_FOLDS)
    if frozen + fit_seconds(context.with_config(config)) > limit and config.method.has_close_up:
        config = with_value(config, "method.close_up", False)
        frozen = WHOLE_PASS * StepTimer(context.with_config(config)).frozen_seconds()
    seconds = frozen + fit_seconds(context.with_config(config))
    views = "the plain view and a close-up" if config.method.has_close_up else "the plain view"
    lines = [f"plan: {views} of each photo through {config.model.backbone}, about {duration(seconds + REST)} here"]
    if seconds > limit:
        lines.append(too_long(seconds + REST, minutes, faster_backbone(config.model)))
    return config, lines


def faster_backbone(model: ModelConfig) -> str:
    """Return a part of `too_long` that names a faster backbone, if the published weights of another one are used."""
    return "" if published_name(model) in ("", FASTEST) else f", or model.backbone={FASTEST},"


def fit_seconds(context: Context) -> float:
    """Return about how long the linear probe and the head of a method take, once for all labels and once per fold."""
    problem, method = context.problem, context.method
    assert isinstance(method, FittedMethod)
    labels, classes, width = len(problem.split.labelled), problem.dataset.num_classes, problem.num_features
    pool = min(len(problem.split.unlabelled), method.most_read)
    probe = PROBE_PASSES * labels * min(labels, width) * classes
    head = method.passes * (labels + pool) * width * classes
    folds = context.config.evaluation.folds
    return ((PROBE_CHOICE + 1 + folds) * probe + (1 + folds) * head) / FIT_RATE


def too_long(seconds: float, minutes: float, less: str = "") -> str:
    """Return a sentence that says that the minutes are too few, and what takes less time.

    The time that is left is rounded down and the time that it takes up, so that they are never the same number.
    """
    left, needed = _rounded(max(0.0, 60 * minutes), math.floor), _rounded(seconds, math.ceil)
    return (
        f"this does not fit into the {left} that are left: it takes {needed} at least; fewer photos or a smaller "
        f"data.image_size{less} take less"
    )


def _rounded(seconds: float, rounding: Callable[[float], int]) -> str:
    return f"{rounding(10 * seconds) / 10:.1f} s" if seconds < 10 else duration(seconds, rounding)


def _covered(speed: Speed) -> str:
    """Return what the estimate covers. It is too low, because views, optimiser and validation are not timed."""
    frozen = "the frozen layers and " if speed.frozen_seconds else ""
    folds = f", {speed.repeats} times to compare with the linear probe" if speed.repeats > 1 else ""
    return f"{frozen}the steps{folds}"


def _folds(context: Context) -> int:
    """Return the number of runs of the cross-validation against the linear probe."""
    return 0 if len(context.problem.split.validation) else len(folds_of(context))


class RandomInputs:
    """`semco.data.inputs.Inputs` of random numbers, to time a step."""

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        self.shape, self._device = shape, device

    def views(self, position: Tensor, weak: int, strong: int, generator: Generator) -> Views:  # noqa: ARG002
        made = [self.plain(position) for _ in range(weak + strong)]
        return Views(tuple(made[:weak]), tuple(made[weak:]))

    def plain(self, position: Tensor) -> Tensor:
        values = torch.rand((len(position), *self.shape), device=self._device)
        return values.contiguous(memory_format=torch.channels_last) if values.dim() == 4 else values


def grown(small: float, double: float, times: float) -> float:
    """Extrapolate the duration to ``times`` as many images, given the seconds for one and for two portions of them.

    A part of the duration does not depend on the number of images; on busy cores it may be most of it.
    """
    by_images = min(max(double - small, 0.0), double / 2)
    return double + by_images * (times - 2)


class StepTimer:
    """Times a step of a run and the pass through its frozen layers, on copies of its network and its method."""

    def __init__(self, context: Context) -> None:
        self._context, dataset = context, context.problem.dataset
        self._images = RandomInputs((dataset.channels, *dataset.image_size), context.device)

    def step_seconds(self) -> float:
        """Return the duration of one process's share of a step; a long one is extrapolated from two small ones."""
        context = self._context
        size = math.ceil(context.config.training.batch_size / context.processes.world_size)
        is_heads_only = context.inputs.is_cached and context.config.model.tune == "heads"
        if size <= 2 * TIMED_LABELLED or is_heads_only:
            return self._time_step(size)
        small, double = self._time_step(TIMED_LABELLED), self._time_step(2 * TIMED_LABELLED)
        return grown(small, double, size / TIMED_LABELLED)

    def frozen_seconds(self) -> float:
        """Return the duration of the frozen layers for all images whose outputs are not stored yet."""
        inputs = self._context.inputs
        if inputs.is_fitted:
            files: list[FeatureFile | None] = [*inputs.view_files(has_close_up=inputs.config.method.has_close_up)]
        else:
            files = [inputs.training_file, inputs.test_file]
        missing = sum(file.count_missing() for file in files if file is not None)
        if not missing:
            return 0.0
        images = self._images.plain(torch.arange(TIMED_IMAGES))
        with torch.inference_mode():
            seconds = shortest_time(lambda: inputs.frozen(images), self._context.device)
        return seconds / TIMED_IMAGES * missing

    def _time_step(self, batch_size: int) -> float:
        context = self._context
        problem, training, device = context.problem, context.config.training, context.device
        network, method = self._network(), copy.deepcopy(context.method)
        batches = Batches(
            RandomInputs(context.inputs.shape_for(self._images), device),
            problem.dataset.train_labels,
            problem.split,
            method.views,
            batch_size=batch_size,
            mu=training.mu,
            seed=0,
            device=device,
        )
        batch, _ = batches.batch(0)
        forward = NetworkForward(network, ema_copy(network), training.target_views)
        progress = Progress(0, training.total_steps, training.steps_per_epoch, Generator().manual_seed(0))

        def step() -> None:
            method.compute(batch, forward, progress).total.backward()

        return shortest_time(step, device)

    def _network(self) -> Network:
        return copy.deepcopy(self._context.model.trained_part()).train()
