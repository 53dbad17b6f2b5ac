"""The folder of a run: which files it holds, and how they are written so that a kill at any instant loses nothing."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from semco.config import Config, read_yaml
from semco.errors import UserError, made_earlier
from semco.files import (
    cannot_write,
    exists,
    flush_to_disk,
    is_leftover,
    lock,
    no_such,
    open_in_place,
    read_text,
    remove_leftovers,
    write_text,
)
from semco.resolve import method_of
from semco.run.result import RunResult
from semco.run.seal import read_with_digest, write_with_digest

LOCK, REQUEST = ".lock", "request.yaml"


def free_run_folder(config: Config) -> Path:
    """Return runs/DATA-METHOD-N with the first free N."""
    return free_folder(Path("runs"), f"{Path(config.data.source).stem}-{method_of(config).name}")


def free_folder(parent: Path, stem: str) -> Path:
    """Return parent/STEM-N with the first free N."""
    return next(path for n in itertools.count(1) if not (path := parent / f"{stem}-{n}").exists())


def _check_path(path: Path) -> None:
    """Refuse names that are not UTF-8: safetensors and pyarrow cannot open files in such a folder."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UserError(f"run folder {str(path)!r} has a name that is not UTF-8; choose another name.") from None


def check_free(path: Path) -> None:
    """Raise an error if a folder cannot be that of a new run because of its name or because something is there."""
    _check_path(path)
    if exists(path) and not path.is_dir():
        raise UserError(f"{path} is a file; choose another folder for the run.")
    if exists(path) and any(not _is_unfinished(entry) for entry in path.iterdir()):
        raise _not_free(path)


def _is_unfinished(entry: Path) -> bool:
    """Return whether a file may be there because a process was killed before its run began."""
    return is_leftover(entry) or (entry.name in (LOCK, REQUEST) and not (entry.parent / "config.yaml").exists())


def _not_free(path: Path) -> UserError:
    return UserError(f"{_what_is_there(path)}choose another folder for the new run.")


def _what_is_there(path: Path) -> str:
    """Return why a new run cannot use the folder, and what can be done, as the beginning of a sentence."""
    run = RunFolder(path)
    if run.is_complete():
        return f"{path} holds a finished run: {run.report_file} is its report, 'semco continue' adds labels to it; "
    if run.config_file.exists():
        return f"{path} holds a run that is not finished; resume it (semco resume {shlex.quote(str(path))}) or "
    return f"{path} exists and is not empty; "


class RunFolder:
    """Paths and small files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.request_file = path / REQUEST  # what was asked
        self.config_file = path / "config.yaml"  # what was decided; a folder with this file holds a run
        self.split_file = path / "split.json"
        self.labels_file = path / "labels.json"
        self.metrics_file = path / "metrics.jsonl"
        self.result_file = path / "result.json"
        self.pseudo_labels_file = path / "pseudo_labels.parquet"
        self.classes_file = path / "classes.parquet"
        self.images_file = path / "images.parquet"
        self.checkpoints = path / "checkpoints"
        self.folds = path / "folds"  # runs of the cross-validation, removed when it is done
        self.model = path / "model"
        self.report_file = path / "report.html"
        self.evaluation_file = path / "evaluation.json"

    @classmethod
    def create(cls, path: Path, request: Config, config: Config) -> RunFolder:
        """Create the folder of a new run; an existing run is never overwritten."""
        check_free(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot create the run folder {path}: {error.strerror}.") from None
        run = cls(path)
        with run.lock():  # another process may begin a run here at the same instant
            if run.config_file.exists():
                raise _not_free(path)
            write_text(run.request_file, request.to_yaml())
            write_text(run.config_file, config.to_yaml())
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open the folder of an existing run."""
        _check_path(path)
        run = cls(path)
        if not exists(path):
            raise no_such("run folder", path)
        if run.config_file.is_file():
            return run
        runs = sorted(str(file.parent) for file in path.glob("*/config.yaml"))
        if runs:
            raise UserError(f"{path} holds several runs; choose one: {', '.join(runs)}.")
        raise UserError(f"{path} is not a run folder: it has no config.yaml.")

    def config(self) -> Config:
        """Return the configuration of the run, without open fields."""
        return _read_config(self.config_file)

    def request(self) -> Config:
        """Return what the run was asked to do."""
        if not self.request_file.exists():
            raise made_earlier(self.path)
        return _read_config(self.request_file)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from training in this folder; a kill releases the lock."""
        with open_in_place(self.path / LOCK, "a") as stream:
            if not lock(stream):
                raise UserError(f"{self.path} is being trained by another process; wait for it, or stop it first.")
            yield

    def is_finished(self) -> bool:
        """Return whether there is a result, and the model that it describes."""
        return self.result_file.is_file() and (self.model / "model.json").is_file()

    def is_complete(self) -> bool:
        """Return whether a finished run also has its table of pseudo-labels; else `resume` writes it again."""
        return self.is_finished() and self.pseudo_labels_file.is_file()

    def is_whole(self) -> bool:
        """Return whether a complete run also has its page, so that `resume` has nothing left to write."""
        return self.is_complete() and self.report_file.is_file()

    def result(self) -> RunResult:
        """Return the result of a finished run."""
        return RunResult.parse(self.read_json(self.result_file), self.result_file)

    def write_result(self, result: RunResult) -> None:
        write_with_digest(self.result_file, result.model_dump(mode="json"))

    def read_json(self, file: Path) -> dict[str, Any]:
        """Return the content of a JSON file of the run without its checksum; an edited one is a `UserError`."""
        return read_with_digest(file)

    def remove_leftovers(self) -> None:
        """Remove the temporary files of killed processes."""
        for folder in (self.path, self.checkpoints, self.model):
            remove_leftovers(folder)

    def append_metrics(self, line: Mapping[str, Any]) -> None:
        """Append a line to the metrics."""
        try:
            with open_in_place(self.metrics_file, "a") as stream:
                stream.write(json.dumps(line) + "\n")
        except OSError as error:
            raise cannot_write(self.metrics_file, error) from error

    def flush_metrics(self) -> None:
        """Wait until the metrics are on the disk: those before a checkpoint must not be lost after it is saved."""
        if self.metrics_file.is_file():
            flush_to_disk(self.metrics_file)

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Yield every line of the metrics; one that a kill cut short or that is not ours is left out."""
        if not self.metrics_file.is_file():
            return
        for line in self.metrics_file.read_bytes().splitlines():
            try:
                values = json.loads(line)
            except (ValueError, RecursionError):  # also text that is not UTF-8
                continue
            if isinstance(values, dict) and _is_step(values.get("step")):
                yield values

    def drop_metrics_after(self, step: int) -> None:
        """Remove the lines after ``step``: the resumed run writes them again."""
        kept = [json.dumps(line) for line in self.metrics() if line["step"] <= step]
        if self.metrics_file.is_file():
            write_text(self.metrics_file, "".join(f"{line}\n" for line in kept))


def _read_config(file: Path) -> Config:
    values = read_yaml(read_text(file), str(file))
    if not values:
        raise UserError(f"{file} is empty; start a new run.")
    return Config.parse(values)


def _is_step(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
