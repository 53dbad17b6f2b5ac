"""The only training loop: load, step, log, validate, save."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from semco.config import Config, changed_fields
from semco.data.batches import Batches, Prefetch
from semco.data.randomness import make_generator
from semco.errors import UserError
from semco.methods.base import Forward, Method, Pool
from semco.training import checkpoint as files
from semco.training.distributed import Processes, from_main, sum_over_processes, together
from semco.training.ema import averaged_copy, decay_at, update_average
from semco.training.exchange import StepExchange
from semco.training.execution import choose_compilation, choose_precision, compiling, forget_empty_libraries
from semco.training.forward import NetworkForward
from semco.training.memory import kept_for_reuse
from semco.training.optimiser import build_optimiser
from semco.training.run_folder import RunFolder
from semco.training.schedule import highest_learning_rate, learning_rate
from semco.training.signals import Interrupted, StopRequest, stop_request
from semco.training.statistics import FiniteWatch, Meters
from semco.types import Batch, Progress, StepResult

Line = Mapping[str, float | None]


class Observer(Protocol):
    """Whoever watches a run: the live display, or nobody."""

    def on_loading(self, what: str, done: int, total: int) -> None: ...
    def on_start(self, step: int, total_steps: int) -> None: ...
    def on_step(self, step: int) -> None: ...
    def on_line(self, line: Line) -> None: ...
    def on_message(self, text: str) -> None: ...


class Silent:
    """The observer that looks away."""

    def on_loading(self, what: str, done: int, total: int) -> None: ...
    def on_start(self, step: int, total_steps: int) -> None: ...
    def on_step(self, step: int) -> None: ...
    def on_line(self, line: Line) -> None: ...
    def on_message(self, text: str) -> None: ...


@dataclass(frozen=True)
class Rhythm:
    """After how many steps something is due."""

    log: int
    validate: int
    save: int
    refresh: int

    @classmethod
    def of(cls, config: Config, steps_per_pass: int) -> Rhythm:
        """``steps_per_pass`` is how many steps see every unlabelled image once."""
        training, total = config.training, config.training.total_steps
        return cls(
            log=training.log_every or max(1, min(total // 50, 200)),
            validate=training.validate_every or max(1, min(total // 20, 2000)),
            save=training.checkpoint_every or max(1, min(total // 10, 1000)),
            # As often as methods that relabel the pool ask for, and often enough to matter in a run shorter than that.
            refresh=max(1, min(steps_per_pass, total // 10)),
        )


class Step(nn.Module):
    """One step's losses as a module of the network's and the method's parameters, whose gradients processes share.

    Their buffers are not in it: `StepExchange` knows better than `DistributedDataParallel` what to do with them.
    """

    def __init__(self, network: nn.Module, method: Method[Any], forward: Forward) -> None:
        super().__init__()
        self.trained = nn.ParameterList([*network.parameters(), *method.parameters()])
        self._compute, self._run = method.compute, forward

    def forward(self, batch: Batch, progress: Progress) -> StepResult:
        return self._compute(batch, self._run, progress)


class Trainer:
    """Trains ``network`` by ``method``; what it has done so far is in the run folder at any time."""

    def __init__(
        self,
        config: Config,
        network: nn.Module,
        method: Method[Any],
        batches: Batches,
        groups: Tensor,
        run: RunFolder,
        *,
        validate: Callable[[nn.Module], dict[str, float]],
        pool: Callable[[nn.Module], Pool],
        observer: Observer | None = None,
        processes: Processes | None = None,
        keep_memory: bool = True,
    ) -> None:
        self.config, self.network, self.method, self.batches, self.run_folder = (
            config,
            network,
            method,
            batches,
            run,
        )
        self.average = averaged_copy(network)
        self.optimiser = build_optimiser(config.optim, self._highest_lr(), network, method)
        self.observer: Observer = observer or Silent()
        self._validate, self._pool, self._keep_memory = validate, pool, keep_memory
        self._processes = processes or Processes()
        self._device = groups.device
        self._rhythm = Rhythm.of(config, batches.steps_per_pass)
        self._meters, self._watch = Meters(groups), FiniteWatch()
        self._step_module = self._build_step()
        self._exchange = StepExchange(network, method, self._processes)
        self.step, self.seconds = 0, 0.0

    def _build_step(self) -> nn.Module:
        training = self.config.training
        precision = choose_precision(training.precision, self._device)
        self._scaler = torch.amp.GradScaler(self._device.type, enabled=precision == torch.float16)
        network = self.network
        shape, views = self.batches.image_shape, self.batches.views_per_step
        compilation = choose_compilation(training, network, shape, views, self._device)
        self._compiles = compilation.wanted
        if compilation.wanted:
            self.observer.on_message(f"the first steps wait for the network to be compiled: {compilation.reason}")
            network = torch.compile(network, dynamic=False)  # type: ignore[assignment]
        forward = NetworkForward(network, self.average, training.target_views, precision)
        step = Step(self.network, self.method, forward)
        return nn.parallel.DistributedDataParallel(step) if self._processes.several else step

    def run(self) -> None:
        """From the last checkpoint, or the start, to the end."""
        total = self.config.training.total_steps
        self._resume()
        self.observer.on_start(self.step, total)
        self.network.train()
        self._clock = time.perf_counter() - self.seconds
        with (
            stop_request(patient=self._processes.several) as stop,
            Prefetch(self.batches, self.step, total) as batches,
            compiling(self.config.training, self._device),
            kept_for_reuse(self._device, self._keep_memory) as keep_memory,
        ):
            for taken, (batch, truth) in enumerate(batches):
                self._refresh_when_due()
                if taken == 0 and self._compiles:
                    self._compile(batch, truth, stop)
                else:
                    self._train(batch, truth, stop)
                if taken == 0:
                    keep_memory()
                self._log_when_due(total)
                if (signal := self._exchange.stop(stop.number)) is not None:
                    self._save()
                    raise Interrupted(signal, self.step, self.run_folder.path)
                if self._due(self._rhythm.save, total):
                    self._save()

    def _compile(self, batch: Batch, truth: Tensor, stop: StopRequest) -> None:
        """The step that compiles, which takes minutes, so that a signal is answered at once.

        A terminal's Ctrl-C ends compilers too, before anything of the step has counted.
        """
        from torch._dynamo.exc import TorchDynamoException  # takes a second

        stop.told = partial(self.observer.on_message, "stopping when the network is compiled")
        try:
            self._train(batch, truth, stop)
        except TorchDynamoException as error:
            forget_empty_libraries()
            if stop.number is not None:
                raise Interrupted(stop.number, self.step, self.run_folder.path) from None
            reason, again = str(error).strip().splitlines()[0], f"semco resume {self.run_folder.path}"
            raise UserError(
                f"the network could not be compiled ({reason}); try '{again}', or train with training.compile=off."
            ) from error
        stop.told = None

    def _train(self, batch: Batch, truth: Tensor, stop: StopRequest) -> None:
        """One step: losses, gradients, weights, average."""
        progress = self._progress()
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.config.optim, self.step, progress.total_steps)
        self.optimiser.zero_grad(set_to_none=True)
        result: StepResult = self._step_module(batch, progress)
        self._scaler.scale(result.total).backward()
        self._scaler.step(self.optimiser)
        self._scaler.update()
        losses = self._exchange(result.losses, batch.unlabelled_index, stop.number)
        result = replace(result, losses=losses)  # from here on the mean of all processes
        training = self.config.training
        update_average(self.average, self.network, decay_at(self.step, training.ema_decay, training.ema_warmup))
        self._meters.add(result, truth)
        self._watch.look(result, self.step)
        self.step += 1
        if self._device.type == "cpu":  # elsewhere the look would wait for the device: only before lines and saves
            self._stop_if_diverged()
        self.observer.on_step(self.step)

    def _progress(self, *, common: bool = False) -> Progress:
        """The step's randomness: each process has its own, unless all do the same thing (``common``)."""
        training = self.config.training
        key = (training.seed, self.step, 0 if common else self._processes.rank)
        # A layer that draws from the global generator (dropout) is thereby a function of seed and step as well.
        torch.manual_seed(make_generator(*key, 1).initial_seed())
        return Progress(self.step, training.total_steps, training.steps_per_epoch, make_generator(*key, 2))

    def _refresh_when_due(self) -> None:
        overridden = type(self.method).refresh is not Method.refresh
        if overridden and self.step % self._rhythm.refresh == 0:
            self.method.refresh(self._pool(self.network), self._progress(common=True))
            self.network.train()

    def _due(self, every: int, total: int) -> bool:
        return self.step % every == 0 or self.step == total

    def _log_when_due(self, total: int) -> None:
        validating = self._due(self._rhythm.validate, total)
        if not (validating or self._due(self._rhythm.log, total)):
            return
        self._stop_if_diverged()
        self._meters.sums = sum_over_processes(self._meters.sums, self._processes)
        line: dict[str, float | None] = {
            "step": self.step,
            "seconds": 0.0,
            "epoch": self._epoch(),
            "lr": self._lr(),
        }
        line |= self._meters.line()
        if validating:
            line |= self._validate(self.average)
        self.seconds = time.perf_counter() - self._clock
        line["seconds"] = round(self.seconds, 3)
        with together(self._processes):
            if self._processes.is_main:
                self.run_folder.append_metrics(line)
        self.observer.on_line(line)

    def _epoch(self) -> float:
        return self.step / self.config.training.steps_per_epoch

    def _lr(self) -> float:
        return float(self.optimiser.param_groups[0]["lr"])

    def _highest_lr(self) -> float:
        return highest_learning_rate(self.config.optim, self.config.training.total_steps)

    def _stop_if_diverged(self) -> None:
        culprits = self._watch.culprits()
        if culprits is None:
            return
        names, step = culprits
        raise self._diverged(f"loss {', '.join(names)} became non-finite at step {step}")

    def _diverged(self, what: str) -> UserError:
        saved = files.checkpoints(self.run_folder.checkpoints)
        kept = f"the last good checkpoint is {saved[-1]}" if saved else "no checkpoint had been written yet"
        return UserError(f"{what}; {kept}; train again with a lower optim.lr than {self._highest_lr():.2g}.")

    def _save(self) -> None:
        """Everything that a run needs to go on as if it had never stopped."""
        self._stop_if_diverged()
        if not all(bool(tensor.isfinite().all()) for tensor in self.network.state_dict().values()):
            raise self._diverged(f"weights became non-finite at step {self.step}")
        tensors = {
            **files.prefixed("network", self.network.state_dict()),
            **files.prefixed("average", self.average.state_dict()),
            **files.prefixed("method", self.method.state_dict()),
            **files.prefixed("optimiser", files.optimiser_tensors(self.optimiser)),
            **files.prefixed("meters", self._meters.state(self._processes)),
        }
        self.seconds = time.perf_counter() - self._clock
        state = {
            "seconds": self.seconds,
            "scaler": self._scaler.state_dict(),
            "config": self.config.model_dump(mode="json"),
        }
        with together(self._processes):
            if self._processes.is_main:
                files.save_checkpoint(self.run_folder.checkpoints, self.step, tensors, state)

    def _resume(self) -> None:
        loaded = self._load()
        if loaded is None:
            return
        tensors, state = loaded
        self._refuse_another_configuration(state["config"])
        self.network.load_state_dict(files.below("network", tensors))
        self.average.load_state_dict(files.below("average", tensors))
        self.method.load_state_dict(files.below("method", tensors))
        files.load_optimiser(self.optimiser, files.below("optimiser", tensors))
        self._meters.load(files.below("meters", tensors), self._processes)
        if state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
        self.step, self.seconds = int(state["step"]), float(state["seconds"])

    def _refuse_another_configuration(self, begun_with: dict[str, Any]) -> None:
        """A run goes on with the configuration that it was begun with; only where things are may change."""
        changed = changed_fields(begun_with, self.config.model_dump(mode="json"))
        said = [f"{name} was {was} and is {now}" for name, (was, now) in changed.items()]
        if said:
            raise UserError(
                f"{self.run_folder.config_file} is not the configuration that this run was begun with "
                f"({'; '.join(said)}): put it back, or start a new run."
            )

    def _load(self) -> files.Loaded | None:
        """The newest checkpoint as the main process reads it; what was logged after it is forgotten."""
        loaded = None
        with together(self._processes):
            if self._processes.is_main:
                loaded = files.load_checkpoint(self.run_folder.checkpoints)
                self.run_folder.cut_metrics(0 if loaded is None else int(loaded[1]["step"]))
        return from_main(loaded, self._processes)
