"""Everything that a run needs, in one of possibly several processes; its parts are created on first use."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from semco.config import Config, MethodConfig
from semco.distributed.processes import Processes
from semco.experiment.initial import InitialNetwork
from semco.experiment.inputs import RunInputs
from semco.experiment.model import RunModel
from semco.experiment.problem import Problem
from semco.methods import build_method
from semco.methods.base import Method
from semco.run.folder import RunFolder
from semco.training.observer import Observer, WithoutLines


@dataclass(frozen=True)
class Context:
    """A run: its configuration, folder and problem."""

    config: Config
    run: RunFolder
    problem: Problem
    inputs: RunInputs
    observer: Observer
    started: float = field(default_factory=time.monotonic)  # when the command began

    @classmethod
    def of(
        cls,
        config: Config,
        path: Path,
        problem: Problem,
        device: torch.device,
        processes: Processes,
        observer: Observer,
        started: float | None = None,
    ) -> Context:
        """Return the context of a run in the folder ``path``, which need not exist yet."""
        method = Method.registry[config.method.name]
        initial = InitialNetwork(config, problem, method.heads)
        inputs = RunInputs(config, problem, method, initial, path, device, processes, observer)
        began = time.monotonic() if started is None else started
        return cls(config, RunFolder(path), problem, inputs, observer, began)

    @property
    def device(self) -> torch.device:
        return self.inputs.device

    @property
    def processes(self) -> Processes:
        return self.inputs.processes

    @cached_property
    def method(self) -> Method[MethodConfig]:
        torch.manual_seed(self.config.training.seed)  # a method may have trainable layers of its own
        return build_method(self.config.method, self.problem.task()).to(self.device)

    @cached_property
    def model(self) -> RunModel:
        return RunModel(self.inputs, self.problem)

    def with_config(self, config: Config) -> Context:
        """Return the same run with another length or other views; the network stays the same."""
        is_same = config.method == self.config.method
        return replace(self, config=config, inputs=self.inputs if is_same else replace(self.inputs, config=config))

    def without_labels(self, held_out: NDArray[np.int64], name: str) -> Context:
        """Return the same run without some of its labels, in a folder inside the run folder."""
        split = self.problem.split
        problem = replace(self.problem, split=replace(split, labelled=np.delete(split.labelled, held_out)))
        run = RunFolder(self.run.folds / name)
        return replace(self, run=run, problem=problem, observer=WithoutLines(self.observer))
