"""A run from its configuration to its result: what the rooms offer, put together once.

`train` makes a run folder and fills it, `resume` goes on with one; both end with the model saved, the test set
evaluated, the pool pseudo-labelled and the report written.
"""

from __future__ import annotations

from pathlib import Path

from semco.config import Config, changed_fields
from semco.data.batches import check_batch_size
from semco.data.datasets import Dataset
from semco.data.sources import REGISTERED
from semco.errors import UserError
from semco.experiment.problem import prepare
from semco.experiment.session import Result, Session, report_on
from semco.training.distributed import Processes, from_main, process_group, together
from semco.training.execution import choose_device
from semco.training.loop import Observer, Silent
from semco.training.run_folder import RunFolder, free_run_folder

__all__ = ["Config", "Result", "begin_or_go_on", "refuse_other_settings", "resume", "train"]


def train(
    config: Config, out: Path | str | None = None, observer: Observer | None = None, dataset: Dataset | None = None
) -> Result:
    """Train as ``config`` says into the new folder ``out``; returns the content of its ``result.json``.

    ``dataset`` takes the place of what ``config.data.source`` names, for images that are in memory already.
    """
    if not isinstance(config, Config):
        raise UserError(
            f"train takes a semco.Config, not {type(config).__name__}; Config.parse makes one of plain values."
        )
    processes = Processes.from_environment()
    watching = observer if observer is not None and processes.is_main else Silent()
    with process_group(processes):
        path = from_main(_path_of_run(config, out, processes), processes)
        if from_main(_was_begun(path, config, processes), processes):
            watching.on_message("a process had died: all start again from the last checkpoint")
            return _go_on(path, processes, watching)
        with together(processes):
            check_batch_size(config.training.batch_size, processes.world_size)
            device = choose_device(config.training.device, processes)
            problem = prepare(config, None, watching, dataset)
        with together(processes):
            run = RunFolder.create(path, config) if processes.is_main else RunFolder(path)
        return Session(config, run, problem, device, processes, watching).carry_out()


def resume(path: Path | str, observer: Observer | None = None) -> Result:
    """Go on with a run as if it had never stopped; a finished one only gives its result."""
    processes = Processes.from_environment()
    with process_group(processes):
        return _go_on(Path(path), processes, observer if observer is not None and processes.is_main else Silent())


def begin_or_go_on(config: Config, path: Path, observer: Observer | None = None) -> Result:
    """`train`, or `resume` where that was begun before."""
    run = RunFolder(path)
    refuse_other_settings(run, config)
    return resume(path, observer) if run.config_file.exists() else train(config, path, observer)


def refuse_other_settings(run: RunFolder, new: Config) -> None:
    """A run that was begun earlier counts only if it was with the same configuration, of the same data."""
    if not run.config_file.exists():
        return
    old = run.config()
    changed = [*changed_fields(old.model_dump(mode="json"), new.model_dump(mode="json"))]
    if not _may_be_the_same(old.data.source, new.data.source):
        changed.append("data.source")
    if old.labels.path != new.labels.path:
        changed.append("labels.path")
    if changed:
        raise UserError(
            f"{run.path} was made with another configuration ({', '.join(changed)}); choose another folder with "
            "--out or remove it."
        )


def _may_be_the_same(one: str, other: str) -> bool:
    """Whether two sources may be the same data: a folder or file may be moved, but not renamed."""
    if one in REGISTERED or other in REGISTERED:
        return one == other
    return Path(one).name == Path(other).name


def _go_on(path: Path, processes: Processes, observer: Observer) -> Result:
    with together(processes):
        run = RunFolder.open(path)
        config = run.config()
    if from_main(run.finished(), processes):
        if processes.is_main and not run.report_file.exists():  # a kill came between the result and the page
            report_on(run, config, config.data.source)
        return from_main(run.result() if processes.is_main else {}, processes)
    with together(processes):
        device = choose_device(config.training.device, processes)
        problem = prepare(config, run, observer)
    return Session(config, run, problem, device, processes, observer).carry_out()


def _path_of_run(config: Config, out: Path | str | None, processes: Processes) -> Path:
    """Where to train; processes that were started anew look for what they began under a name of their own choice."""
    if out is not None:
        return Path(out)
    free = free_run_folder(config)
    stem = free.name.rpartition("-")[0]
    begun = [path for path in free.parent.glob(f"{stem}-*") if _was_begun(path, config, processes)]
    return max(begun, key=lambda path: path.stat().st_mtime, default=free)


def _was_begun(path: Path, config: Config, processes: Processes) -> bool:
    """Whether this is the run that the same processes worked on before torchrun started them anew."""
    return processes.restarts > 0 and (path / "config.yaml").is_file() and RunFolder.open(path).config() == config
