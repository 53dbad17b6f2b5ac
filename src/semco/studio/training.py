"""Rounds of training: ordinary run folders, trained in a process that can be stopped and resumed."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from semco.config import Config, configure
from semco.config.recipes import recipes
from semco.distributed.launch import parent_environment
from semco.errors import UserError
from semco.experiment.continuation import model_of_parent
from semco.experiment.plan import with_default_minutes
from semco.files import cannot_write, exists, read_json_object, write_json
from semco.methods import FittedMethod
from semco.models.pretrained import is_installed
from semco.resolve import method_of
from semco.run.folder import RunFolder
from semco.studio.journal import ClassTable
from semco.studio.label_file import Rows, write_label_file
from semco.studio.review import shown_accuracy

Start = Literal["auto", "scratch", "last"]
RECIPE = "photos"
# The metrics of a run that the page draws.
CURVES = (
    "loss",
    "pseudo/one_hot/ratio",
    "pseudo/semantic/ratio",
    "validation_accuracy",
    "disagreement",
)
MOST_POINTS = 400
STATES = ("running", "stopped", "finished", "failed")  # of a job
PATIENCE = 60.0  # seconds for a process to end
ROUND = re.compile(r"round-([1-9][0-9]{0,5})")  # the folder of a round
MOST_ROUNDS = 999_999


class Job:
    """One job in its own process (`semco.studio.worker`), or its files after the Studio was restarted."""

    def __init__(self, stem: Path) -> None:
        self._stem = stem
        self.status_file, self._log = stem.with_name(f"{stem.name}.status.json"), stem.with_name(f"{stem.name}.log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, values: Mapping[str, Any]) -> None:
        file = self._stem.with_name(f"{self._stem.name}.job.json")
        write_json(file, {**values, "status": str(self.status_file)})
        self.status_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "semco.studio.worker", str(file)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **parent_environment()}
            )

    def is_running(self) -> bool:
        """Return whether the job is running; a process that has written its last status is about to end."""
        return self._is_alive() and self._reported()["state"] == "running"

    def _is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Ask the job to stop; a run saves itself first."""
        if self._process is not None and self._is_alive():
            self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        """Wait until the process of a job that is done has ended."""
        try:
            if self._process is not None:
                self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise UserError("the process of the last job has not ended yet; try again in a moment.") from None

    def close(self) -> None:
        """Stop the job and wait until it is saved; one that takes longer saves itself when this process ends."""
        self.stop()
        with suppress(UserError):
            self.wait()

    def status(self) -> dict[str, Any]:
        """Return the status of the job; one that has ended without a final status was stopped or has failed."""
        is_alive = self._is_alive()  # before the status is read, which may be the last one
        found = self._reported()
        if is_alive or found["state"] != "running":
            return found
        code = None if self._process is None else self._process.returncode
        if code is None or -code in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            return {**found, "state": "stopped", "message": "stopped"}
        return {**found, "state": "failed", "error": f"the process ended with code {code}: {self._last_line()}"}

    def _reported(self) -> dict[str, Any]:
        found = read_json_object(self.status_file) if exists(self.status_file) else {"state": "running"}
        if found.get("state") not in STATES:
            raise UserError(f"{self.status_file} does not say how far the job is; remove it.")
        return found

    def _last_line(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines() if exists(self._log) else []
        return lines[-1][:500] if lines else "it printed nothing"


class Training:
    """The rounds of a project; one can train at a time."""

    def __init__(self, folder: Path, photos: Path, settings: Sequence[str] = ()) -> None:
        self._folder, self._photos, self._settings = folder, photos, tuple(settings)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(folder, error) from error
        self._job: Job | None = None
        self._rounds = sorted(int(found[1]) for path in folder.iterdir() if (found := ROUND.fullmatch(path.name)))

    @property
    def last(self) -> int:
        """The number of the last round, 0 if there is none."""
        return self._rounds[-1] if self._rounds else 0

    def path(self, number: int) -> Path:
        return self._folder / f"round-{number}"

    def finished(self) -> int:
        """Return the number of the last round that is complete, 0 if there is none."""
        return next(iter(self.rounds()), 0)

    def rounds(self) -> Iterator[int]:
        """Yield the numbers of the rounds that are complete, the last one first."""
        return (number for number in reversed(self._rounds) if RunFolder(self.path(number)).is_complete())

    def is_running(self) -> bool:
        return self._job is not None and self._job.is_running()

    def start(
        self, rows: Rows, test: Mapping[str, str | None], table: ClassTable, minutes: float, start: Start = "auto"
    ) -> int:
        """Start a new round with these labels and test photos, and return its number."""
        self._check_free()
        names = sorted({name for _, name in rows})
        if len(names) < 2:
            raise UserError("training needs labelled photos of at least two classes; label some more.")
        number = self.last + 1
        if number > MOST_ROUNDS:
            raise UserError(f"there is no number left after {self.path(self.last)}; give that folder another name.")
        labels = write_label_file(self._folder / f"round-{number}.labels", rows, test, self._photos)
        config = with_default_minutes(self._configure(labels, table.labels_config(names), start), minutes)
        self._rounds.append(number)
        self._run(number, {"kind": "train", "config": config.to_yaml()})
        return number

    def resume(self) -> int:
        """Resume the last round."""
        self._check_free()
        run = RunFolder(self.path(self.last))
        if not self.last or not run.config_file.is_file() or run.is_complete():
            raise UserError("there is no stopped round to resume; start a new one.")
        self._run(self.last, {"kind": "resume"})
        return self.last

    def stop(self) -> None:
        if self._job is not None:
            self._job.stop()

    def close(self) -> None:
        """Stop the round that is training and wait until it is saved."""
        if self._job is not None:
            self._job.close()

    def progress(self) -> dict[str, Any]:
        """Return the state of the last round with its curves."""
        if not self.last:
            return {"round": 0, "state": "none"}
        run = RunFolder(self.path(self.last))
        job = self._job or Job(run.path)
        status: dict[str, Any] = {"state": "stopped"}
        if self._job or exists(job.status_file):
            status = job.status()
        if run.is_complete() and not self.is_running():
            status["state"] = "finished"
        status["can_resume"] = status["state"] in ("stopped", "failed") and run.config_file.is_file()
        return {**status, "round": self.last, "curves": curves(run.metrics()), "run": str(run.path)}

    def _run(self, number: int, values: Mapping[str, Any]) -> None:
        if self._job is not None:
            self._job.wait()
        self._job = Job(self.path(number))
        self._job.start({**values, "out": str(self.path(number))})

    def _check_free(self) -> None:
        if self.is_running():
            raise UserError(f"round {self.last} is training; stop it first, or wait until it is finished.")

    def accuracy(self, number: int) -> dict[str, Any] | None:
        """Return the accuracy of a round on photos whose labels it did not learn from; None if there are none."""
        result = RunFolder(self.path(number)).result()
        return shown_accuracy(result.accuracy, result.probe)

    def live_config(self) -> Config | None:
        """Return the configuration of the model that follows the labels; None if rounds are trained in steps."""
        if not has_pretrained():
            return None
        config = configure(RECIPE, None, {"data": {"source": str(self._photos)}}, self._settings)
        return config if issubclass(method_of(config), FittedMethod) else None

    def _configure(self, labels: Path, label_fields: Mapping[str, Any], start: Start) -> Config:
        options: dict[str, Any] = {
            "data": {"source": str(self._photos), "labels_from": str(labels)},
            "labels": dict(label_fields),
        }
        if start == "scratch":
            options["model"] = {"pretrained": "none"}
        recipe = RECIPE if start != "scratch" and has_pretrained() else None
        config = configure(recipe, None, options, self._settings)
        if start == "last":
            parent = self.finished()
            if not parent:
                raise UserError("there is no finished round to start from; start without one.")
            config = config.model_copy(update={"model": model_of_parent(RunFolder(self.path(parent)), config)})
        return config


def has_pretrained() -> bool:
    """Return whether the default pretrained weights for photos are installed."""
    return is_installed(recipes()[RECIPE].values["model"]["backbone"])


def curves(lines: Iterator[dict[str, Any]]) -> dict[str, list[list[float]]]:
    """Return [step, value] points of the metrics that the page draws, at most `MOST_POINTS` of each."""
    found: dict[str, list[list[float]]] = {name: [] for name in CURVES}
    for line in lines:
        for name in CURVES:
            if isinstance(value := line.get(name), int | float) and math.isfinite(value):  # a run may have diverged
                found[name].append([line["step"], round(float(value), 5)])
    return {name: points[:: 1 + len(points) // MOST_POINTS] for name, points in found.items() if points}
