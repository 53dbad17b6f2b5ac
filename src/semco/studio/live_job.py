"""The Studio's side of the model that follows the labels (`semco.studio.live`), which runs in a process of its own.

Whenever the page asks for its progress, the process gets the newest labels. Its folder can be removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from semco.config import Config
from semco.errors import UserError
from semco.files import exists, read_json_object, write_json
from semco.run.accuracy import Accuracy
from semco.run.result import ProbeResult
from semco.studio.journal import ClassTable
from semco.studio.photos import Photos
from semco.studio.review import Answers, shown_accuracy
from semco.studio.training import Job


class Live:
    """The process that fits a head after every label; it needs a label for every class."""

    def __init__(self, folder: Path, photos: Photos, config: Config) -> None:
        self._folder, self._photos, self._config = folder, photos, config
        self._job = Job(folder / "live")
        self.submitted = 0  # the last entry of the journal that was sent to the process
        self._answers: tuple[int, dict[str, Any]] | None = None  # by version

    def start(self) -> None:
        """Start the process, which computes the features of the photos."""
        for left in ("labels", "answers"):  # of an earlier session, whose photos had other numbers
            self._file(left).unlink(missing_ok=True)
        root = self._photos.root
        every = {"photos": self._photos.names, "test": list(self._photos.test)}
        write_json(self._file("photos"), {kind: [str(root / name) for name in names] for kind, names in every.items()})
        files = {name: str(self._file(name)) for name in ("photos", "labels", "answers")}
        self._job.start({"kind": "live", "config": self._config.to_yaml(), "out": str(self._folder / "run"), **files})

    def close(self) -> None:
        self._job.close()

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def submit(self, seq: int, table: ClassTable, labels: Mapping[int, int], test: Mapping[str, str | None]) -> None:
        """Send the labels after an entry of the journal to the process, if every class has one."""
        if len(table.classes) < 2 or without_label(table, labels):
            return
        numbers, names = list(table.names), list(table.names.values())
        ids, by_name = ({each: i for i, each in enumerate(some)} for some in (numbers, names))
        values = {
            "seq": seq,
            "classes": numbers,
            "names": names,
            "labels": table.labels_config(names),
            "photos": list(labels),
            "class_ids": [ids[label] for label in labels.values()],
            "test_ids": [-1 if name is None else by_name[name] for name in test.values()],
        }
        write_json(self._file("labels"), values)
        self.submitted = seq

    def status(self) -> dict[str, Any]:
        """Return the progress of the process, with the accuracy worded as in reports."""
        found = self._job.status()
        accuracy, probe = found.get("accuracy"), found.get("probe")
        shown = None
        if accuracy is not None:
            of_probe = None if probe is None else ProbeResult.model_validate(probe)
            shown = shown_accuracy(Accuracy.model_validate(accuracy), of_probe)
        kept = {name: found.get(name) for name in ("state", "phase", "error", "is_ready")}
        return {**kept, "seq": found.get("seq", 0), "version": _version(found), "accuracy": shown}

    def answers(self, names: Mapping[int, str]) -> Answers | None:
        """Return the newest answers; None if there are none yet."""
        values = self._newest()
        if values is None:
            return None
        guesses = np.asarray([each if each in names else -1 for each in values["guesses"]], dtype=np.int64)
        photos, places = (np.asarray(values[name], dtype=np.int64) for name in ("photos", "places"))
        confidence = np.asarray(values["confidence"], dtype=np.float64)
        return Answers(photos, guesses, confidence, np.zeros(len(photos), np.bool_), guesses, places)

    def _newest(self) -> dict[str, Any] | None:
        try:
            version = _version(self._job.status())
            if version and (self._answers is None or self._answers[0] != version) and exists(self._file("answers")):
                self._answers = (version, read_json_object(self._file("answers")))
            if not version:
                self._answers = None
        except UserError:  # somebody has changed the files; the answers of the last round are shown
            self._answers = None
        return None if self._answers is None else self._answers[1]


def _version(status: Mapping[str, Any]) -> int:
    """Return the number of the newest answers; 0 if the process has ended."""
    return int(status.get("version", 0)) if status["state"] == "running" else 0


def without_label(table: ClassTable, labels: Mapping[int, int]) -> list[int]:
    """Return the classes without a labelled photo."""
    given = set(labels.values())
    return [number for number in table.names if number not in given]
