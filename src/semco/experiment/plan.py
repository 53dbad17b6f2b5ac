"""What fits into the minutes that the user has: which layers are trained, and for how many steps.

A few passes are timed on this machine before the run starts; the choice is saved with the run's configuration.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Generator, Tensor

from semco.config import REGISTERED_DATASETS, Config
from semco.data.batches import Batches
from semco.distributed.processes import Processes
from semco.errors import duration
from semco.experiment.cross_validation import number_of_folds
from semco.experiment.model import RunModel
from semco.experiment.problem import Problem, precision_of
from semco.methods import build_method
from semco.models import Network, has_weights
from semco.models.averaging import ema_copy
from semco.models.tuning import Tune, choose_tune
from semco.training.forward import NetworkForward
from semco.training.observer import NullObserver
from semco.training.timing import shortest_time
from semco.types import Progress, Views

# No run from loaded weights takes more steps (docs/lab/pretrained.md).
FEWEST_STEPS, MOST_STEPS = 20, 600
# Labelled images of a timed step, and images of a timed pass through frozen layers.
TIMED_LABELLED, TIMED_IMAGES = 2, 8
HOUR = 3600.0


def starts_from_weights(source: str) -> bool:
    """Return whether a run on this data starts from pretrained weights by default: photos do."""
    known = REGISTERED_DATASETS.get(source)
    return known.is_photos if known is not None else Path(source).is_dir()


@dataclass(frozen=True)
class Plan:
    """The configuration of a run with its length, and how long it takes."""

    config: Config
    step_seconds: float
    frozen_seconds: float  # for the outputs of the frozen layers, unless they are stored
    repeats: int  # the run and those of the cross-validation
    processes: int = 1

    @property
    def seconds(self) -> float:
        return self.frozen_seconds + self.step_seconds * self.repeats * self.config.training.total_steps

    def _covered(self) -> str:
        """Return what the estimate is for. It is low: views, optimiser and validation are not timed."""
        frozen = "the frozen layers and " if self.frozen_seconds else ""
        folds = f", {self.repeats} times to compare with the linear probe" if self.repeats > 1 else ""
        return f"{frozen}the steps{folds}"

    def lines(self) -> list[str]:
        """Return the plan in two sentences, and a warning if the run takes more than an hour."""
        model, training, size = self.config.model, self.config.training, self.config.data.image_size
        weights = "pretrained" if has_weights(model) else "from scratch"
        parts = {"all": "all layers", "top": "the last stages and the heads", "heads": "the heads"}
        lines = [
            f"plan: {model.backbone} ({weights}), training {parts[choose_tune(model)]}"
            + (f", at {size} x {size} pixels" if size else ""),
            f"plan: {training.total_steps:,} steps of {training.batch_size} labelled and "
            f"{training.mu * training.batch_size} unlabelled images"
            + (f" in {self.processes} processes" if self.processes > 1 else "")
            + f"; at least {duration(self.seconds)} here for {self._covered()}; reading the images, the evaluation "
            "and the report come on top",
        ]
        if self.seconds > HOUR:
            lines.append(
                f"this takes more than an hour; fewer steps than {training.total_steps:,} or fewer minutes make it "
                "shorter"
            )
        return lines


def make_plan(config: Config, problem: Problem, device: torch.device, minutes: float, processes: int = 1) -> Plan:
    """Return the plan with as many steps as fit into the minutes, unless the configuration gives their number.

    Several processes share the images of each step; one of them computes the outputs of the frozen layers.

    From loaded weights the heads are trained unless the configuration asks for more layers: on CPUs the other layers
    took thirty times as long and gained nothing (docs/lab/pretrained.md).
    """
    config = _with_tune(config, choose_tune(config.model)) if has_weights(config.model) else config
    timer = StepTimer(config, problem, device, processes)
    step, frozen = timer.step_seconds(), timer.frozen_seconds()
    training, repeats = config.training, 1 + _folds(config, problem)
    if training.steps is None and training.epochs is None:
        most = MOST_STEPS if has_weights(config.model) else training.total_steps
        steps = max(FEWEST_STEPS, min(most, int((60 * minutes - frozen) / (step * repeats))))
        config = config.model_copy(update={"training": training.model_copy(update={"steps": steps})})
    return Plan(config, step, frozen, repeats, processes)


def with_length(config: Config) -> Config:
    """Return the configuration with the usual number of steps from loaded weights, if it gives no length."""
    if not has_weights(config.model) or config.training.steps or config.training.epochs:
        return config
    return config.model_copy(update={"training": config.training.model_copy(update={"steps": MOST_STEPS})})


def with_plan_of(config: Config, planned: Config) -> Config:
    """Return the configuration with the choices of a plan that was made before."""
    training = config.training.model_copy(update={"steps": planned.training.steps})
    return _with_tune(config.model_copy(update={"training": training}), planned.model.tune)


def _with_tune(config: Config, tune: Literal["auto"] | Tune) -> Config:
    return config.model_copy(update={"model": config.model.model_copy(update={"tune": tune})})


def _folds(config: Config, problem: Problem) -> int:
    """Return the number of runs of the cross-validation against the linear probe."""
    if not has_weights(config.model) or len(problem.split.validation):
        return 0
    return number_of_folds(config, problem.labelled_class_ids.numpy())


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
    """Return the duration for ``times`` as many images as took ``small`` seconds; twice as many took ``double``.

    A part of the duration does not depend on the number of images, and on busy cores that may be most of it.
    """
    by_images = min(max(double - small, 0.0), double / 2)
    return double + by_images * (times - 2)


class StepTimer:
    """Times a step of a run and the pass through its frozen layers, with a network and a method of its own."""

    def __init__(self, config: Config, problem: Problem, device: torch.device, processes: int = 1) -> None:
        self._config, self._problem, self._device, self._processes = config, problem, device, processes
        self._method = build_method(config.method, problem.task()).to(device)
        precision = precision_of(config, problem, device).precision
        self._model = RunModel(config, problem, self._method, Path(), device, Processes(), NullObserver(), precision)
        self._images = RandomInputs((problem.dataset.channels, *problem.dataset.image_size), device)

    def step_seconds(self) -> float:
        """Return the duration of one process's share of a step; if it may be long, by those of two small ones."""
        size = math.ceil(self._config.training.batch_size / self._processes)
        if size <= 2 * TIMED_LABELLED or (self._model.is_cached and choose_tune(self._config.model) == "heads"):
            return self._time_step(size)
        small, double = self._time_step(TIMED_LABELLED), self._time_step(2 * TIMED_LABELLED)
        return grown(small, double, size / TIMED_LABELLED)

    def frozen_seconds(self) -> float:
        """Return the duration of the pass through the frozen layers of all images whose outputs no run has stored."""
        files = [file for file in (self._model.training_file, self._model.test_file) if file is not None]
        missing = sum(file.count_missing() for file in files)
        if not missing:
            return 0.0
        frozen, images = self._model.tuned.frozen(), self._images.plain(torch.arange(TIMED_IMAGES))
        with torch.inference_mode():
            seconds = shortest_time(lambda: frozen(images), self._device)
        return seconds / TIMED_IMAGES * missing

    def _time_step(self, batch_size: int) -> float:
        network, problem, training = self._network(), self._problem, self._config.training
        batches = Batches(
            RandomInputs(self._model.input_shape(self._images), self._device),
            problem.dataset.train_labels,
            problem.split,
            self._method.views,
            batch_size=batch_size,
            mu=training.mu,
            seed=0,
            device=self._device,
        )
        batch, _ = batches.batch(0)
        forward = NetworkForward(network, ema_copy(network), training.target_views)
        generator = Generator().manual_seed(0)
        progress = Progress(0, training.total_steps, training.steps_per_epoch, generator)

        def step() -> None:
            self._method.compute(batch, forward, progress).total.backward()

        return shortest_time(step, self._device)

    def _network(self) -> Network:
        return copy.deepcopy(self._model.trained_part()).train()
