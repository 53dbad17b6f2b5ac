"""Train a run from its configuration, or resume one from its folder.

Both end with the model saved, the test images evaluated, the pool pseudo-labelled and the report written.
"""

from __future__ import annotations

from pathlib import Path

import torch

from semco.config import Config
from semco.data.batches import check_batch_size
from semco.data.datasets import Dataset
from semco.data.sources import list_source
from semco.distributed.processes import Processes, broadcast_from_main, process_group, same_error_everywhere
from semco.errors import UserError
from semco.experiment.plan import make_plan, with_plan_of
from semco.experiment.problem import Problem, prepare, with_attributes, with_image_size
from semco.experiment.session import Session
from semco.methods import Method
from semco.report import write_report
from semco.run.data_record import changes_of_listing
from semco.run.folder import RunFolder, check_free, free_run_folder
from semco.run.identity import changes_of_command
from semco.run.result import RunResult
from semco.training.execution import choose_device
from semco.training.observer import NullObserver, Observer


def train(
    config: Config,
    out: Path | str | None = None,
    observer: Observer | None = None,
    dataset: Dataset | None = None,
    minutes: float | None = None,
) -> RunResult:
    """Train as ``config`` describes into the new folder ``out`` and return the result.

    ``dataset`` replaces what ``config.data.source`` names, for images that are already in memory. ``minutes``: choose
    what the configuration leaves open, the number of steps and the layers to train, so that the run takes about so
    long on this machine.
    """
    if not isinstance(config, Config):
        raise UserError(
            f"train takes a semco.Config, not {type(config).__name__}; Config.parse makes one from plain values."
        )
    config = with_attributes(with_image_size(config))
    processes = Processes.from_environment()
    watcher = _observer_of(observer, processes)
    with process_group(processes):
        path = broadcast_from_main(_path_of_run(config, out, processes, minutes is not None), processes)
        if broadcast_from_main(_was_started(path, config, processes, minutes is not None), processes):
            watcher.on_message("a process died: all processes restart from the last checkpoint")
            return _resume(path, processes, watcher)
        with same_error_everywhere(processes):
            if processes.is_main:
                check_free(path)  # before the data are read, which may take minutes
            check_batch_size(config.training.batch_size, processes.world_size)
            device = choose_device(config.training.device, processes)
            problem = prepare(config, None, watcher, dataset)
            if minutes is not None and processes.is_main:
                config = _plan(config, problem, device, minutes, watcher, processes.world_size)
        config = broadcast_from_main(config, processes)
        with same_error_everywhere(processes):
            run = RunFolder.create(path, config) if processes.is_main else RunFolder(path)
        return Session(config, run, problem, device, processes, watcher).execute()


def _plan(
    config: Config, problem: Problem, device: torch.device, minutes: float, observer: Observer, processes: int
) -> Config:
    if not Method.registry[config.method.name].takes_steps:
        observer.on_message(f"plan: {config.method.name} on the features of {config.model.backbone}; no training steps")
        return config
    plan = make_plan(config, problem, device, minutes, processes)
    for line in plan.lines():
        observer.on_message(line)
    return plan.config


def resume(path: Path | str, observer: Observer | None = None) -> RunResult:
    """Resume a run as if it had never stopped; a finished one only returns its result."""
    processes = Processes.from_environment()
    with process_group(processes):
        return _resume(Path(path), processes, _observer_of(observer, processes))


def train_or_resume(config: Config, path: Path, observer: Observer | None = None) -> RunResult:
    """Train into ``path``, or resume the run that was started there with the same configuration."""
    run, config = RunFolder(path), with_attributes(with_image_size(config))
    check_same_configuration(run, config)
    return resume(path, observer) if run.config_file.exists() else train(config, path, observer)


def check_same_configuration(run: RunFolder, config: Config) -> None:
    """Refuse a run folder that was made with another configuration or other data."""
    if not run.config_file.exists():
        return
    changes = changes_of_command(run.config(), config)
    if changes:
        raise UserError(
            f"{run.path} was made with another configuration ({', '.join(changes)}); choose another folder, or "
            "remove it."
        )


def _observer_of(observer: Observer | None, processes: Processes) -> Observer:
    """Only the main process reports."""
    return observer if observer is not None and processes.is_main else NullObserver()


def _resume(path: Path, processes: Processes, observer: Observer) -> RunResult:
    with same_error_everywhere(processes):
        run = RunFolder.open(path)
        config = run.config()
    if broadcast_from_main(run.is_complete(), processes):
        if processes.is_main and not run.report_file.exists():  # killed between the result and the page
            with run.lock():
                run.remove_leftovers()
                write_report([run.path], run.report_file)
        if processes.is_main:
            _report_changed_data(run, config, observer)
        return run.result()
    with same_error_everywhere(processes):
        device = choose_device(config.training.device, processes)
        problem = prepare(config, run, observer)
    return Session(config, run, problem, device, processes, observer).execute()


def _report_changed_data(run: RunFolder, config: Config, observer: Observer) -> None:
    """Say which files of the data have changed since a finished run was trained."""
    try:
        listing = list_source(config.data)
        changes = None if listing is None else changes_of_listing(run.path, config.data, listing)
    except UserError as error:
        observer.on_message(f"the data of this run cannot be read any more: {error}")
        return
    if changes:
        observer.on_message(f"the data have changed since this run was trained: {changes.describe()}")


def _path_of_run(config: Config, out: Path | str | None, processes: Processes, is_planned: bool) -> Path:
    """Return the folder to train in; restarted processes look for the one that they had chosen before."""
    if out is not None:
        return Path(out)
    free = free_run_folder(config)
    stem = free.name.rpartition("-")[0]
    started = [path for path in free.parent.glob(f"{stem}-*") if _was_started(path, config, processes, is_planned)]
    return max(started, key=lambda path: path.stat().st_mtime, default=free)


def _was_started(path: Path, config: Config, processes: Processes, is_planned: bool) -> bool:
    """Return whether the same processes trained this run before torchrun restarted them.

    A planned run has the length and the tuned layers that were chosen when it started.
    """
    if processes.restarts == 0 or not (path / "config.yaml").is_file():
        return False
    saved = RunFolder.open(path).config()
    return saved == (with_plan_of(config, saved) if is_planned else config)
