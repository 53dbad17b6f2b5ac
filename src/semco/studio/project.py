"""One open project: the folder of photos and everything that the Studio keeps about it, in a folder of its own.

journal.jsonl  snapshot.json   labels and classes
thumbnails/                    can be removed at any time
live/                          the model that follows the labels; can be removed when the Studio is closed
runs/round-1/ ...              ordinary run folders, with the labels they were trained on beside them
exports/                       models and sorted photos
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from semco.data.sources.label_file import csv_text
from semco.errors import UserError, brief
from semco.export.service import Service
from semco.files import cannot_write, lock, open_in_place, write_json
from semco.predict.predictor import load
from semco.run.folder import RunFolder, free_folder
from semco.studio.class_changes import change_classes, check_seen
from semco.studio.classes import describe
from semco.studio.journal import ClassTable, Entry, Journal
from semco.studio.label_file import Rows, label_rows
from semco.studio.live_job import Live, without_label
from semco.studio.photos import Photos, found_labels
from semco.studio.review import Answers, check, read_answers, summarise
from semco.studio.training import Job, Start, Training
from semco.studio.views import Query, choose, with_answers
from semco.suggestions.diversity import DiverseSelection

HISTORY = 200  # entries that the page shows
MEASURED = 5  # rounds whose accuracy the page shows
# Most photos for the model in the background; two views of 10,000 photos take 5 minutes on two cores.
MOST_FOLLOWED = 10_000
FOLDERS = "folders"  # the name of the tab for labels found in the folder


class Project:
    """Photos, journal, rounds of training and exports. Use it as a context manager.

    ``is_live``: a model follows the labels, if the weights that it needs are installed.
    """

    def __init__(
        self,
        photos: Path,
        folder: Path,
        classes: Sequence[str] = (),
        settings: Sequence[str] = (),
        *,
        is_live: bool = False,
    ) -> None:
        self.folder = folder.absolute()
        self.photos = Photos(photos, self.folder / "thumbnails")
        if self.folder.is_relative_to(self.photos.root):
            raise UserError(f"the project folder {folder} is inside the photos; choose another project folder.")
        self._lock = self._locked()
        self.session = secrets.token_hex(6)  # numbers of photos are valid within one session
        self.journal = Journal(self.folder)
        self.training = Training(self.folder / "runs", self.photos.root, settings)
        self.diverse = DiverseSelection(len(self.photos), self.photos.thumbnail)
        is_followed = is_live and len(self.photos) + len(self.photos.test) <= MOST_FOLLOWED
        config = self.training.live_config() if is_followed else None
        self.live = None if config is None else Live(self.folder / "live", self.photos, config)
        self.found: dict[str, int] | None = None  # how much was found in the folder when the project began
        self._answers: dict[int, tuple[ClassTable, Answers]] = {}  # by round
        self._service: tuple[int, Service] | None = None
        self._jobs: dict[str, Job] = {}
        self._changing = threading.Lock()  # held while the classes are changed; labels are written all the same
        self._starting = threading.Lock()  # held while a job is started
        try:
            if classes or self.journal.seq:
                self._add_missing(classes)
            else:
                self._take_folders()
        except UserError:
            self.close()
            raise

    def __enter__(self) -> Project:
        self.diverse.start()
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all jobs; everything is saved."""
        self.diverse.close()
        for job in self._jobs.values():
            job.close()
        if self.live is not None:
            self.live.close()
        self.training.close()
        if self._service is not None:
            self._service[1].close()
        self.journal.close()
        self._lock.close()

    def _add_missing(self, classes: Sequence[str]) -> None:
        known = {name.casefold() for name in self.table.names.values()}
        missing = [name for name in classes if " ".join(name.split()).casefold() not in known]
        if missing:
            self.journal.set_classes(self.table.add(*missing).to_plain())

    def _take_folders(self) -> None:
        """Take class folders as classes and labels, when a project begins without classes."""
        found = found_labels(self.photos)
        if not found:
            return
        try:
            table = self.table.add(*sorted(set(found.values())))
        except UserError as error:  # too many, too long, or two that differ in their case only
            self.journal.problems.append(f"The folders are not taken as classes: {error}")
            return
        numbers = {each.name: each.number for each in table.classes}
        labels = {photo: numbers[" ".join(name.split())] for photo, name in found.items()}
        entry = self.journal.set_classes(table.to_plain(), FOLDERS, labels)
        self.found = {"seq": entry.seq, "classes": len(numbers), "labels": len(labels)}

    def test_classes(self) -> dict[str, str | None]:
        """Return the name of the class of every test photo, None if there is no such class, by name of the photo."""
        with self.journal.lock:
            numbers, names = self.journal.named(), self.table.names
        numbers |= {name.casefold(): number for number, name in names.items()}
        return {
            photo: names.get(numbers.get(" ".join(folder.split()).casefold(), -1))
            for photo, folder in self.photos.test.items()
        }

    def _locked(self) -> Any:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        stream = open_in_place(self.folder / ".lock", "a")
        if not lock(stream):
            stream.close()
            raise UserError(f"the project {self.folder} is open in another Studio; use that one, or close it first.")
        return stream

    @property
    def table(self) -> ClassTable:
        with self.journal.lock:
            return ClassTable.from_plain(self.journal.classes(), self.journal.next_class())

    def labels(self) -> dict[int, int]:
        """Return the class number of every labelled photo whose class exists."""
        with self.journal.lock:
            known, found = self.table.names, self.journal.labels()
        numbered = self.photos.numbered(found)
        return {photo: label for photo, label in numbered.items() if label in known}

    def rows(self) -> Rows:
        """Return path and class name of every labelled photo that is still there."""
        with self.journal.lock:
            names, labels = self.table.names, self.journal.labels()
        there = {name: label for name, label in labels.items() if self.photos.number(name) is not None}
        return label_rows(there, names)

    def csv(self) -> str:
        return csv_text(self.rows())

    def label(
        self, photos: Sequence[int], label: int | None, tab: str, seen: int | None, *, is_blind: bool = False
    ) -> Entry:
        """Label photos; raise a `Conflict` with their numbers if another tab has changed some of them.

        ``is_blind``: the person did not see the model's answer for this one photo; it is kept beside the label.
        """
        answer = self._answer_for(photos[0]) if is_blind and len(photos) == 1 else 0
        with self.journal.lock:  # otherwise the class could be removed in between
            if label is not None:
                self.table.find(label)
            return self.journal.label({self.photos.name(number): label for number in photos}, tab, seen, answer)

    def _answer_for(self, photo: int) -> int:
        """Return the class that the model gives to a photo, 0 if it gives none."""
        answers = self.answers()
        if answers is None:
            return 0
        return int(answers.guesses[answers.numbers == photo].max(initial=0))

    def change_classes(self, values: Mapping[str, Any], tab: str, seen: int | None = None) -> dict[str, Any]:
        """Change the classes as the page asks, and return what they are taken for; a bad change is not written.

        ``seen`` is the last entry that the page knows: what another tab has changed since is not changed again.
        """
        with self._changing:
            while True:
                before = self.table
                table = change_classes(before, values)
                if seen is not None:
                    check_seen(ClassTable.from_plain(self.journal.classes_after(seen)), before, values)
                described = describe(table)  # takes a second, and refuses an alias that is no term
                with self.journal.lock:
                    if self.table != before:  # something was undone meanwhile: the change is made to what is there now
                        continue
                    if table != before:
                        self.journal.set_classes(table.to_plain(), tab)
                    return {**described, "seq": self.journal.seq}

    def describe(self) -> dict[str, Any]:
        """Return how the class names are understood, and the last entry of the journal that this is based on."""
        with self.journal.lock:
            seq, table = self.journal.seq, self.table
        return {**describe(table), "seq": seq}

    def changes(self, since: int) -> dict[int, int | None]:
        """Return the labels that changed after an entry, by photo."""
        with self.journal.lock:
            known, found = self.table.names, self.journal.changes(since)
        return {
            number: label if label in known else None
            for name, label in found.items()
            if (number := self.photos.number(name)) is not None
        }

    def state(self, since: int | None) -> dict[str, Any]:
        """Return what every page needs, with all labels or those that changed after an entry."""
        with self.journal.lock:
            seq, table = self.journal.seq, self.table
            labels = self.labels() if since is None else self.changes(since)
        return {
            "session": self.session,
            "seq": seq,
            "photos": len(self.photos),
            "root": str(self.photos.root),
            "project": str(self.folder),
            "classes": [[each.number, each.name] for each in table.classes],
            "labels": labels,
            "problems": self.problems(),
            "training": {"round": self.training.last, "running": self.training.is_running()},
            "finished": self.training.finished(),
            "diverse": [self.diverse.done, self.diverse.total],
            "found": self.found,
            "test": len(self.photos.test),
            "live": self.follow(),
        }

    def problems(self) -> list[str]:
        """Return messages for the user, one sentence each."""
        found = list(self.journal.problems)
        if not self.photos.is_there():
            found.append(f"The folder {self.photos.root} is not there any more; put it back. No label is lost.")
        if self.photos.cannot_store:
            found.append(self.photos.cannot_store)
        return found

    def history(self) -> list[dict[str, Any]]:
        """Return the last changes, latest first."""
        return [
            {
                "seq": entry.seq,
                "time": entry.time,
                "kind": entry.kind,
                "count": len(entry.changes),
                "label": next(iter(entry.changes.values())) if entry.kind == "label" else None,
                "undone": undone,
            }
            for entry, undone in self.journal.history(HISTORY)
        ]

    def follow(self) -> dict[str, Any]:
        """Send the newest labels to the model that follows them, and return its progress."""
        off = {"state": "off", "seq": 0, "version": 0, "accuracy": None}
        if self.live is None:
            return off
        with self.journal.lock:
            seq, table, labels = self.journal.seq, self.table, self.labels()
        try:
            if seq != self.live.submitted:
                self.live.submit(seq, table, labels, self.test_classes())
            found = self.live.status()
        except UserError as error:  # the disk is full, or somebody has changed its files; labels are saved all the same
            found = {**off, "state": "failed", "error": str(error)}
        return {**found, "wanted": seq, "without_label": without_label(table, labels)}

    def answers(self) -> Answers | None:
        """Return the answers of the model that follows the labels, or else of the last finished round, or None."""
        found = None if self.live is None else self.live.answers(self.table.names)
        number = self.training.finished()
        return found if found is not None else self._answers_of(number) if number else None

    def _answers_of(self, number: int) -> Answers:
        table = self.table
        if number not in self._answers or self._answers[number][0] != table:
            run = RunFolder(self.training.path(number))
            self._answers[number] = (table, read_answers(run, self.photos, table.names))
        return self._answers[number][1]

    def progress(self) -> dict[str, Any]:
        """Return the state of the last round, and the accuracy of the last finished ones."""
        numbers = islice(self.training.rounds(), MEASURED)
        accuracies = [{"round": number, "accuracy": self.training.accuracy(number)} for number in numbers]
        return {**self.training.progress(), "accuracies": accuracies}

    def view(self, query: Query) -> dict[str, Any]:
        """Return the photos of the wall, in order, with the model's answers, which a blind check leaves out."""
        answers = self.answers()
        numbers = choose(query, self.photos.names, self.labels(), self.diverse.order(), answers)
        return with_answers(numbers, None if query.order == "random" else answers)

    def review(self) -> dict[str, Any] | None:
        """Return the numbers of the review page, None before there are answers."""
        answers = self.answers()
        if answers is None:
            return None
        groups, labels = describe(self.table)["groups"], self.labels()
        live, number = self.follow(), self.training.finished()
        return {
            "round": 0 if live["version"] else number,
            "accuracy": live["accuracy"] if live["version"] else self.training.accuracy(number),
            "checked": check(self.photos.numbered(self.journal.blind_answers()), labels),
            **summarise(answers, labels, groups),
        }

    def train(self, minutes: float, start: Start) -> int:
        with self.journal.lock:
            rows, table = self.rows(), self.table
        with self._starting:
            return self.training.start(rows, self.test_classes(), table, minutes, start)

    def resume(self) -> int:
        with self._starting:
            return self.training.resume()

    def service(self) -> Service:
        """Return the model of the last finished round, ready to answer."""
        number = self._finished()
        if self._service is None or self._service[0] != number:
            if self._service is not None:
                self._service[1].close()
            self._service = (number, Service(load(self.training.path(number), engine="torch")))
        return self._service[1]

    def _finished(self) -> int:
        number = self.training.finished()
        if not number:
            raise UserError("there is no model yet; train a round first.")
        return number

    def export(self, kind: str, least: float = 0.9, link: bool = False) -> Path:
        """Start to export the model (``onnx``) or to sort the photos (``sort``), and return the folder."""
        with self._starting:
            return self._export(kind, least, link)

    def _export(self, kind: str, least: float, link: bool) -> Path:
        number = self._finished()
        if kind in self._jobs and self._jobs[kind].is_running():
            raise UserError("this export is running already; wait until it is finished.")
        stem = {"onnx": f"model-{number}", "sort": "sorted"}.get(kind)
        if stem is None:
            raise UserError(
                f"models are exported as onnx, and photos are sorted; there is no export {brief(kind, 40)}."
            )
        out = free_folder(self.folder / "exports", stem)
        out.mkdir(parents=True)
        values: dict[str, Any] = {"kind": "export", "run": str(self.training.path(number)), "out": str(out)}
        if kind == "sort":
            rows = out.with_name(f"{out.name}.rows.json")
            write_json(rows, self._sorted_rows())
            values |= {"kind": "sort", "rows": str(rows), "least": least, "link": link}
        if kind in self._jobs:
            self._jobs[kind].wait()
        self._jobs[kind] = Job(out)
        self._jobs[kind].start(values)
        return out

    def exports(self) -> dict[str, Any]:
        """Return the state of the last export of each kind."""
        return {kind: job.status() for kind, job in self._jobs.items()}

    def _sorted_rows(self) -> list[tuple[str, str, float]]:
        """Return path, class and confidence of every photo: its label, or else the model's answer."""
        answers = self.answers()
        with self.journal.lock:
            names, labels = self.table.names, self.labels()
        rows = [(str(self.photos.path(number)), names[label], 1.0) for number, label in labels.items()]
        if answers is None:
            return rows
        found = zip(answers.numbers.tolist(), answers.guesses.tolist(), answers.confidence.tolist(), strict=True)
        return rows + [
            (str(self.photos.path(number)), names[guess], confidence)
            for number, guess, confidence in found
            if number not in labels and guess in names
        ]
