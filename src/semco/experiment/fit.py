"""Train the network of a run, from its last checkpoint or from the start."""

from __future__ import annotations

from functools import partial

import torch

from semco.data.batches import Batches
from semco.experiment.context import Context
from semco.experiment.evaluate import validate
from semco.training.loop import Trainer


def make_trainer(context: Context) -> Trainer:
    """Return the trainer of a run, before its first step."""
    return Trainer(
        context.config,
        context.model.initial(),
        context.method,
        _batches(context),
        torch.from_numpy(context.problem.groups.group_ids).to(context.device),
        context.run,
        seal=context.model.seal,
        validate=partial(validate, context),
        pool=context.model.pool,
        observer=context.observer,
        processes=context.processes,
    )


def _batches(context: Context) -> Batches:
    training, processes = context.config.training, context.processes
    return Batches(
        context.inputs.training,
        context.problem.dataset.train_labels,
        context.problem.split,
        context.method.views,
        batch_size=training.batch_size,
        mu=training.mu,
        seed=training.seed,
        rank=processes.rank,
        world_size=processes.world_size,
        device=context.device,
    )
