"""The context of a run that is not started: its data are read and its request is resolved."""

from __future__ import annotations

from pathlib import Path

import torch

from semco.config import Config
from semco.distributed.processes import Processes
from semco.experiment.context import Context
from semco.experiment.loading import load_request
from semco.experiment.problem import Problem, prepare
from semco.resolve import Machine, resolve
from semco.training.observer import NullObserver

MACHINE = Machine(has_gpu=False)


def problem_of(request: Config) -> tuple[Config, Problem]:
    """Return the configuration and the problem that a request leads to on a machine without anything special."""
    loaded = load_request(request, NullObserver())
    config = resolve(request, loaded.facts, MACHINE).config
    return config, prepare(config, loaded.dataset, loaded.facts.label_vectors(config.labels), NullObserver())


def context_of(request: Config, processes: Processes | None = None) -> Context:
    """Return the context of a run of a request, in no folder."""
    config, problem = problem_of(request)
    return Context.of(config, Path(), problem, torch.device("cpu"), processes or Processes(), NullObserver())
