"""A job of the Studio in a process of its own: train or resume a run, follow the labels, export a model, sort photos.

    python -m semco.studio.worker JOB.json

The process ends with the Studio. What it does is in a status file that the Studio reads; a run is saved when it stops.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from semco.data.listing import FILES, Entry
from semco.distributed.launch import end_with_parent
from semco.errors import UserError
from semco.files import read_json, read_json_object, write_json
from semco.predict.predictions import Prediction, Sorter
from semco.training.observer import MetricsLine

EVERY = 0.5  # seconds between two writings of the status
NICENESS = 5  # the page stays fast while a run trains
MESSAGES = 40  # that are kept


class Status:
    """An observer of a run that keeps a status file up to date."""

    def __init__(self, file: Path) -> None:
        self._file, self._written = file, 0.0
        self._values: dict[str, Any] = {"state": "running", "messages": [], "step": 0, "total_steps": 0}
        self._started, self._first_step = 0.0, 0
        self.write()

    def write(self, **values: Any) -> None:
        self._values |= values
        self._written = time.monotonic()
        write_json(self._file, self._values)

    def _write_sometimes(self, **values: Any) -> None:
        self._values |= values
        if time.monotonic() - self._written >= EVERY:
            self.write()

    def on_loading(self, what: str, done: int, total: int) -> None:
        self._write_sometimes(phase={"what": what, "done": done, "total": total})

    def on_start(self, step: int, total_steps: int) -> None:
        self._started, self._first_step = time.monotonic(), step
        self.write(phase=None, step=step, total_steps=total_steps, seconds_left=None)

    def on_step(self, step: int) -> None:
        taken, left = step - self._first_step, self._values["total_steps"] - step
        seconds = left * (time.monotonic() - self._started) / taken if taken > 0 else None
        self._write_sometimes(step=step, seconds_left=seconds)

    def on_line(self, line: MetricsLine) -> None: ...

    def on_message(self, text: str) -> None:
        self.write(messages=[*self._values["messages"], text][-MESSAGES:])


def train(job: dict[str, Any], status: Status) -> dict[str, Any]:
    from semco.config import Config
    from semco.experiment import train as train_run

    result = train_run(Config.from_yaml(job["config"]), Path(job["out"]), status)
    return {"seconds": result.seconds}


def resume(job: dict[str, Any], status: Status) -> dict[str, Any]:
    from semco.experiment import resume as resume_run

    return {"seconds": resume_run(Path(job["out"]), status).seconds}


def export(job: dict[str, Any], status: Status) -> dict[str, Any]:
    from semco.export.run import export_run

    status.on_message("writing the model and comparing it with torch")
    done = export_run(Path(job["run"]), Path(job["out"]) / "model.onnx")
    return {"files": [str(done.file), str(done.card)], "agreement": done.agreement, "images": done.images}


def sort(job: dict[str, Any], status: Status) -> dict[str, Any]:
    """Copy or link photos into a folder per class."""
    sorter = Sorter(Path(job["out"]), job["least"], link=job["link"])
    rows = read_json(Path(job["rows"]))
    missing = 0
    for done, (path, label, confidence) in enumerate(rows, 1):
        try:
            sorter.add(Entry(path, FILES), Prediction(path, label, confidence))
        except UserError as error:  # the photo is gone; a full disk shows at the folder itself
            if Path(path).exists():
                raise
            missing += 1
            status.on_message(str(error))
        status.on_loading("sorting photos", done, len(rows))
    return {"files": [job["out"]], "photos": len(rows) - missing, "missing": missing}


def live(job: dict[str, Any], status: Status) -> dict[str, Any]:
    from semco.studio.live import follow

    follow(job, status)
    return {}


JOBS = {"train": train, "resume": resume, "live": live, "export": export, "sort": sort}


def run(file: Path) -> int:
    """Do the job of a file and return the exit code."""
    job = read_json_object(file)
    status = Status(Path(job["status"]))
    try:
        done = JOBS[job["kind"]](job, status)
    except KeyboardInterrupt as stopped:  # also `Stopped`
        status.write(state="stopped", message=str(stopped))
        return 0
    except UserError as error:
        status.write(state="failed", error=str(error))
        return 2
    status.write(state="finished", phase=None, seconds_left=None, **done)
    return 0


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the run itself listens
    os.nice(NICENESS)
    warnings.simplefilter("ignore")
    end_with_parent()
    sys.exit(run(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
