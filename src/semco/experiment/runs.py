"""Train a run from a request, or resume one from its folder: load, resolve, fit, judge, write."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import torch

from semco.config import Config
from semco.data.batches import check_batch_size
from semco.data.datasets import Dataset
from semco.data.sources import list_source
from semco.distributed.processes import Processes, broadcast_from_main, process_group, same_error_everywhere
from semco.errors import UserError
from semco.experiment.context import Context
from semco.experiment.fit import make_trainer
from semco.experiment.fitted import fit_head
from semco.experiment.judge import judge, measure_probe
from semco.experiment.loading import Loaded, load_request
from semco.experiment.plan import describe_plan, fit_views, measure_speed, too_long, with_steps
from semco.experiment.problem import prepare, read_problem, write_problem
from semco.experiment.write import Steps, write
from semco.methods import FittedMethod, describe_method
from semco.report import write_report
from semco.resolve import Machine, resolve
from semco.resolve.rules import is_open
from semco.run.data_record import changes_of_listing, write_data_record
from semco.run.folder import RunFolder, check_free, free_run_folder
from semco.run.identity import changes_of_command
from semco.run.result import RunResult
from semco.training.execution import choose_device
from semco.training.observer import NullObserver, Observer


def train(
    request: Config,
    out: Path | str | None = None,
    observer: Observer | None = None,
    dataset: Dataset | None = None,
    started: float | None = None,
) -> RunResult:
    """Train as ``request`` asks into the new folder ``out`` and return the result.

    What the request leaves open is decided once, by `semco.resolve`. ``dataset`` replaces what ``data.source`` names,
    for images that are already in memory. ``started``: the `time.monotonic` from which time counts, by default now.

    Examples:
        >>> values = {
        ...     "data": {"source": "fashion-mini", "classes": ["bag", "coat"], "labels_per_class": 4},
        ...     "model": {"backbone": "wrn-10-1"},
        ...     "training": {"steps": 2, "batch_size": 4},
        ... }
        >>> result = semco.train(semco.Config.parse(values), "runs/first")
        >>> result.steps, result.num_labels
        (2, 8)
    """
    started = time.monotonic() if started is None else started
    if not isinstance(request, Config):
        raise UserError(
            f"train takes a semco.Config, not {type(request).__name__}; Config.parse makes one from plain values."
        )
    processes = Processes.from_environment()
    watcher = _observer_of(observer, processes)
    with process_group(processes):
        path = broadcast_from_main(_path_of_run(request, out, processes), processes)
        if broadcast_from_main(_was_started(path, request, processes), processes):
            watcher.on_message("a process died: all processes restart from the last checkpoint")
            return _resume(path, processes, watcher, started)
        context = _start(request, path, watcher, dataset, processes, started)
        return execute(context)


def _start(
    request: Config,
    path: Path,
    observer: Observer,
    dataset: Dataset | None,
    processes: Processes,
    started: float,
) -> Context:
    """Load, resolve and create the run folder."""
    with same_error_everywhere(processes):
        if processes.is_main:
            check_free(path)  # before the data are read, which may take minutes
        check_batch_size(request.training.batch_size, processes.world_size)
        loaded = load_request(request, observer, dataset)
        machine = Machine.of_this_process()
        resolution = resolve(request, loaded.facts, machine)
    for note in resolution.notes:
        observer.on_message(note)
    config = broadcast_from_main(resolution.config, processes)
    with same_error_everywhere(processes):
        device = choose_device(config.training.device, processes)
        problem = prepare(config, loaded.dataset, loaded.facts.label_vectors(config.labels), observer)
        context = Context.of(config, path, problem, device, processes, observer, started)
    if request.training.minutes is not None:
        assert context.inputs.features_folder  # all processes agree on it, before one of them makes the plan
        with same_error_everywhere(processes):
            if processes.is_main:
                config = _fit_into_minutes(request, loaded, machine, context)
    config = broadcast_from_main(config, processes)
    with same_error_everywhere(processes):
        if processes.is_main:
            RunFolder.create(path, request, config)
    return context.with_config(config)


def _fit_into_minutes(request: Config, loaded: Loaded, machine: Machine, context: Context) -> Config:
    """Return the configuration with as many views and steps as fit into the remaining minutes of the request."""
    assert request.training.minutes is not None
    minutes = request.training.minutes - (time.monotonic() - context.started) / 60
    if isinstance(context.method, FittedMethod):
        config, lines = fit_views(context, minutes)
    else:
        speed = measure_speed(context)
        steps = speed.steps_in(minutes, context.config.training.total_steps)
        config = resolve(with_steps(request, steps), loaded.facts, machine).config
        lines = describe_plan(config, speed, context.processes.world_size)
        if speed.seconds(steps) > 60 * minutes:
            lines.append(too_long(speed.seconds(steps), minutes, ", or the method semantic_probe,"))
    for line in lines:
        context.observer.on_message(line)
    return config


def execute(context: Context) -> RunResult:
    """Fit, judge and write."""
    run, processes, observer = context.run, context.processes, context.observer
    with ExitStack() as stack:
        with same_error_everywhere(processes):
            if processes.is_main:
                stack.enter_context(run.lock())
                run.remove_leftovers()
                write_problem(run, context.problem, context.config, context.method.scale)
                write_data_record(run.path, context.config.data, context.problem.dataset)
        observer.on_message(f"method: {describe_method(context.config.method.name)}")
        if isinstance(context.method, FittedMethod):
            observer.on_message(context.problem.counts())
            return write(context, fit_head(context), Steps())
        trainer = make_trainer(context)
        observer.on_message(f"{context.problem.counts()}; {context.config.training.total_steps:,} steps")
        probe = measure_probe(context)
        trainer.run()
        return write(context, judge(context, trainer.average, probe), Steps(trainer.state.step, trainer.seconds_before))


def resume(path: Path | str, observer: Observer | None = None, started: float | None = None) -> RunResult:
    """Resume a run as if it had never stopped; a finished one only returns its result.

    Examples:
        >>> semco.resume("runs/first").steps
        2
    """
    processes, started = Processes.from_environment(), time.monotonic() if started is None else started
    with process_group(processes):
        return _resume(Path(path), processes, _observer_of(observer, processes), started)


def train_or_resume(request: Config, path: Path, observer: Observer | None = None) -> RunResult:
    """Train into ``path``, or resume the run that was started there with the same request."""
    run = RunFolder(path)
    check_same_request(run, request)
    return resume(path, observer) if run.config_file.exists() else train(request, path, observer)


def check_same_request(run: RunFolder, request: Config) -> None:
    """Refuse a run folder that was made for another request or other data."""
    if not run.config_file.exists():
        return
    changes = changes_of_command(run.request(), request)
    if changes:
        raise UserError(
            f"{run.path} was made with another configuration ({', '.join(changes)}); choose another folder, or "
            "remove it."
        )


def _observer_of(observer: Observer | None, processes: Processes) -> Observer:
    """Only the main process reports."""
    return observer if observer is not None and processes.is_main else NullObserver()


def _resume(path: Path, processes: Processes, observer: Observer, started: float) -> RunResult:
    with same_error_everywhere(processes):
        run = RunFolder.open(path)
        request, config = run.request(), run.config()
    if broadcast_from_main(run.is_complete(), processes):
        if processes.is_main and not run.report_file.exists():  # killed after the result and before the report
            with run.lock():
                run.remove_leftovers()
                write_report([run.path], run.report_file)
        if processes.is_main:
            _report_changed_data(run, config, observer)
        return run.result()
    with same_error_everywhere(processes):
        device = choose_device(_device_of(request, config), processes)
        problem = read_problem(config, run, observer)
    return execute(Context.of(config, run.path, problem, device, processes, observer, started))


def _device_of(request: Config, config: Config) -> str:
    """Return the device of a resumed run; one whose request left it open may continue without the GPU that it had."""
    was_open = is_open("training.device", request)
    is_missing = config.training.device == "cuda" and not torch.cuda.is_available()
    return "cpu" if was_open and is_missing else config.training.device


def _report_changed_data(run: RunFolder, config: Config, observer: Observer) -> None:
    """Report which files of the data have changed since a finished run was trained."""
    try:
        listing = list_source(config.data)
        changes = None if listing is None else changes_of_listing(run.path, config.data, listing)
    except UserError as error:
        observer.on_message(f"the data of this run cannot be read any more: {error}")
        return
    if changes:
        observer.on_message(f"the data have changed since this run was trained: {changes.describe()}")


def _path_of_run(request: Config, out: Path | str | None, processes: Processes) -> Path:
    """Return the folder to train in; restarted processes look for the one that they had chosen before."""
    if out is not None:
        return Path(out)
    free = free_run_folder(request)
    stem = free.name.rpartition("-")[0]
    started = [path for path in free.parent.glob(f"{stem}-*") if _was_started(path, request, processes)]
    return max(started, key=lambda path: path.stat().st_mtime, default=free)


def _was_started(path: Path, request: Config, processes: Processes) -> bool:
    """Return whether the same processes trained this run before torchrun restarted them."""
    if processes.restarts == 0 or not (path / "config.yaml").is_file():
        return False
    return RunFolder.open(path).request() == request
