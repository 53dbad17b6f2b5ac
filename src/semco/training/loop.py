"""The only training loop: load, step, log, validate, save."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from semco.config import Config
from semco.data.batches import Batches, Prefetch
from semco.data.randomness import make_generator
from semco.distributed.processes import (
    AllProcesses,
    Processes,
    broadcast_from_main,
    same_error_everywhere,
    share_gradients,
)
from semco.errors import NotFiniteError, UserError
from semco.methods.base import Forward, Method, Pool
from semco.models import Network
from semco.models.averaging import ema_copy, ema_decay_at, update_ema
from semco.run.checkpoint import Checkpoint, checkpoints, load_checkpoint, remove_old_checkpoints
from semco.run.folder import RunFolder
from semco.run.identity import check_same_run
from semco.run.seal import broken_seals
from semco.training.allocator import reuse_freed_memory
from semco.training.exchange import StepExchange
from semco.training.execution import threads_for_steps
from semco.training.forward import NetworkForward
from semco.training.observer import NullObserver, Observer
from semco.training.optimiser import StartDecay, build_optimiser, probe_heads
from semco.training.pool_statistics import EARLY_EPOCHS, write_class_counts, write_image_counts
from semco.training.schedule import Schedule, learning_rate
from semco.training.signals import Interrupted, StopRequest, announce_stop, catch_signals
from semco.training.skipping import PARTS
from semco.training.state import TrainingState
from semco.training.statistics import DivergenceMonitor, Meters
from semco.types import Batch, NoPeers, Progress, StepResult


class Step(nn.Module):
    """The losses of one step as a module over the parameters of network and method, whose gradients processes share.

    It does not hold their buffers: `StepExchange` merges these.
    """

    def __init__(self, network: nn.Module, method: Method[Any], forward: Forward) -> None:
        super().__init__()
        self.trained = nn.ParameterList([*network.parameters(), *method.parameters()])
        self._compute, self._forward = method.compute, forward

    def forward(self, batch: Batch, progress: Progress) -> StepResult:
        return self._compute(batch, self._forward, progress)


class Trainer:
    """Trains ``network`` with ``method``; the run folder holds what has been done so far at any time."""

    def __init__(
        self,
        config: Config,
        network: Network,
        method: Method[Any],
        batches: Batches,
        group_ids: Tensor,
        run: RunFolder,
        *,
        seal: Mapping[str, Any] | None = None,
        validate: Callable[[nn.Module], dict[str, float]],
        pool: Callable[[nn.Module], Pool],
        observer: Observer | None = None,
        processes: Processes | None = None,
        reuse_memory: bool = True,
    ) -> None:
        self.config, self.network, self.method, self.batches, self.run_folder = config, network, method, batches, run
        self.observer: Observer = observer or NullObserver()
        self._seal, self._validate, self._pool, self._reuse_memory = seal or {}, validate, pool, reuse_memory
        self._processes = processes or Processes()
        self._device = group_ids.device
        self._schedule = Schedule.of(config, batches.steps_per_pass)
        self._divergence = DivergenceMonitor()
        self._start_decay = StartDecay(probe_heads(network), config.optim.start_decay)
        self.state = TrainingState(
            network,
            ema_copy(network),
            method,
            build_optimiser(config.optim, network, method),
            Meters(
                group_ids,
                len(batches.pool[0]) if config.training.statistics else 0,
                EARLY_EPOCHS * config.training.steps_per_epoch,
            ),
            self._processes,
        )
        self.seconds_before = 0.0  # of the steps that were taken before the run was resumed
        self._step_module = self._build_step()
        self._exchange = StepExchange(network, method, self._processes)

    @property
    def average(self) -> nn.Module:
        """The network with the EMA weights."""
        return self.state.average

    def _build_step(self) -> nn.Module:
        training = self.config.training
        parts = PARTS if training.skip else None
        forward = NetworkForward(self.network, self.average, training.target_views, parts)
        return share_gradients(Step(self.network, self.method, forward), self._processes)

    def run(self) -> None:
        """Train from the last checkpoint, or the start, to the end."""
        self._load()
        self.seconds_before = self.state.seconds
        self.observer.on_start(self.state.step, self._schedule.total)
        self.network.train()
        self._started = time.perf_counter() - self.state.seconds
        with self._runtime() as (stop, batches, keep_memory):
            for taken, (batch, truth) in enumerate(batches):
                self._refresh_if_due()
                self._train(batch, truth, stop)
                if taken == 0:
                    keep_memory()
                self._log_if_due()
                self._stop_if_requested(stop)
                self._save_if_due()
        if stop.number is not None and not self._processes.are_several:
            signal.raise_signal(stop.number)  # it came after the last step; now its own handler is in place again

    @contextmanager
    def _runtime(self) -> Iterator[tuple[StopRequest, Prefetch, Callable[[], None]]]:
        """Set up what surrounds the loop: signals, prefetching, memory, threads."""
        with (
            catch_signals(ignore_repeats=self._processes.are_several) as stop,
            announce_stop(stop, self.observer.on_message),
            Prefetch(self.batches, self.state.step, self._schedule.total) as batches,
            reuse_freed_memory(self._device, self._reuse_memory) as keep_memory,
            threads_for_steps(self.network, self.batches.views_per_step),
        ):
            yield stop, batches, keep_memory

    def _train(self, batch: Batch, truth: Tensor, stop: StopRequest) -> None:
        """Take one step: losses, gradients, weights, EMA weights."""
        state, training, progress = self.state, self.config.training, self._progress()
        for group in state.optimiser.param_groups:
            group["lr"] = learning_rate(
                self.config.optim, state.step, progress.total_steps, group["highest"], training.steps_per_epoch
            )
        state.optimiser.zero_grad(set_to_none=True)
        result: StepResult = self._step_module(batch, progress)
        loss = result.total + self._start_decay() if self._start_decay.strength else result.total
        loss.backward()
        state.optimiser.step()
        losses = self._exchange(result.losses, batch.unlabelled_index, stop.number)
        result = replace(result, losses=losses)  # from here on the mean over all processes
        update_ema(state.average, self.network, ema_decay_at(state.step, training.ema_decay, training.ema_warmup))
        state.meters.add(result, truth, batch.unlabelled_index)
        self._divergence.check(result, state.step)
        state.step += 1
        if self._device.type == "cpu":  # on other devices this would wait, so it is checked before lines and saves only
            self._stop_if_diverged()
        self.observer.on_step(state.step)

    def _progress(self, *, is_shared: bool = False) -> Progress:
        """Return the progress of this step; each process has its own random generator unless it is shared."""
        training, step = self.config.training, self.state.step
        key = (training.seed, step, 0 if is_shared else self._processes.rank)
        # This makes a layer that draws from the global generator (dropout) a function of seed and step as well. On a
        # CPU only its own generator is seeded: `torch.manual_seed` takes milliseconds to prepare devices not in use.
        seed = torch.default_generator.manual_seed if self._device.type == "cpu" else torch.manual_seed
        seed(make_generator(*key, 1).initial_seed())
        peers = AllProcesses() if self._processes.are_several else NoPeers()
        return Progress(step, training.total_steps, training.steps_per_epoch, make_generator(*key, 2), peers)

    def _refresh_if_due(self) -> None:
        is_overridden = type(self.method).refresh is not Method.refresh
        if is_overridden and self.state.step % self._schedule.refresh == 0:
            self.method.refresh(self._pool(self.network), self._progress(is_shared=True))
            self.network.train()

    def _log_if_due(self) -> None:
        """Write a line of metrics, with the validation accuracy if it is due."""
        state, schedule = self.state, self._schedule
        is_validating = schedule.is_due(schedule.validate, state.step)
        if not (is_validating or schedule.is_due(schedule.log, state.step)):
            return
        self._stop_if_diverged()
        line: dict[str, float | None] = {"step": state.step, "seconds": 0.0}
        line["epoch"] = state.step / self.config.training.steps_per_epoch
        line["lr"] = float(state.optimiser.param_groups[0]["lr"])
        line |= state.meters.line(state.step, self._processes)
        if is_validating:
            line |= self._validated()
        state.seconds = time.perf_counter() - self._started
        line["seconds"] = round(state.seconds, 3)
        with same_error_everywhere(self._processes):
            if self._processes.is_main:
                self.run_folder.append_metrics(line)
        self.observer.on_line(line)

    def _validated(self) -> dict[str, float]:
        try:
            return self._validate(self.average)
        except NotFiniteError as error:  # the loss of the next step would show it
            raise self._diverged(f"predictions became non-finite at step {self.state.step}") from error

    def _stop_if_requested(self, stop: StopRequest) -> None:
        if (number := self._exchange.stop(stop.number)) is not None:
            self._save()
            raise Interrupted(number, self.state.step, self.run_folder.path)

    def _stop_if_diverged(self) -> None:
        divergence = self._divergence.first_divergence()
        if divergence is not None:
            names, step = divergence
            raise self._diverged(f"loss {', '.join(names)} became non-finite at step {step}")

    def _diverged(self, what: str) -> UserError:
        saved = checkpoints(self.run_folder.checkpoints)
        kept = f"the last good checkpoint is {saved[-1]}" if saved else "no checkpoint had been written yet"
        highest = max(self.config.optim.lr, self.config.optim.backbone_lr)
        return UserError(f"{what}; {kept}; train again with a lower optim.lr than {highest:.2g}.")

    def _save_if_due(self) -> None:
        if self._schedule.is_due(self._schedule.save, self.state.step):
            self._save()

    def _save(self) -> None:
        """Write a checkpoint from which the run can be resumed bit-exactly."""
        self._stop_if_diverged()
        if not self.state.is_finite():
            raise self._diverged(f"weights became non-finite at step {self.state.step}")
        self.state.seconds = time.perf_counter() - self._started
        self._write_statistics()  # before the checkpoint: after a kill in between, the resumed run writes them again
        if self._processes.is_main:
            self.run_folder.flush_metrics()
        self.state.save(self.run_folder.checkpoints, self.config.model_dump(mode="json"), self._seal)

    def _write_statistics(self) -> None:
        """Write what pseudo-labelling did so far, per class and per image."""
        pool = self.state.meters.pool
        if not (pool.is_kept and pool.has_counts):
            return
        images = pool.merged_images(self._processes)
        with same_error_everywhere(self._processes):
            if self._processes.is_main:
                positions, truth = self.batches.pool
                write_class_counts(self.run_folder.classes_file, pool.history)
                write_image_counts(self.run_folder.images_file, positions.numpy(), truth.numpy(), images)

    def _load(self) -> None:
        """Continue from the newest checkpoint, if there is one, and drop the metrics that were logged after it."""
        checkpoint: Checkpoint | None = None
        with same_error_everywhere(self._processes):
            if self._processes.is_main:
                checkpoint = load_checkpoint(self.run_folder.checkpoints)
                step = 0 if checkpoint is None else int(checkpoint[1]["step"])
                self.run_folder.drop_metrics_after(step)
                remove_old_checkpoints(self.run_folder.checkpoints, step)
        checkpoint = broadcast_from_main(checkpoint, self._processes)
        if checkpoint is not None:
            check_same_run(checkpoint[1]["config"], self.config, self.run_folder.config_file)
            self._check_seal(checkpoint[1]["seal"])
            self.state.load(checkpoint)

    def _check_seal(self, saved: dict[str, Any]) -> None:
        """Refuse to resume with other data, another split or other label vectors than the checkpoint was trained on."""
        broken = broken_seals(saved, self._seal)
        if broken:
            raise UserError(
                f"{self.run_folder.path} was trained with other inputs than it has now ({', '.join(broken)}): restore "
                "them, or start a new run."
            )
