"""Predict any number of photos with a trained model and write the answers as a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from semco.data.datasets import ProgressCallback
from semco.data.listing import Entry
from semco.data.names import NONE_OF_THESE
from semco.errors import UserError
from semco.evaluation.probabilities import Head
from semco.files import check_new
from semco.predict.engine import About
from semco.predict.photos import check_photos, find_photos
from semco.predict.predictions import Prediction, Rows, Sorter, Table, choose_format, open_table
from semco.predict.predictor import Predictor, load

# Files that cannot be read and are named in a summary; all of them are in the table.
NAMED_SKIPPED = 20


@dataclass(frozen=True)
class Predictions:
    rows: tuple[Prediction, ...]
    skipped: tuple[str, ...]  # files that could not be read, each with the reason
    about: About


def predict_images(
    folder: Path,
    paths: Sequence[Path],
    head: Head | None = None,
    report: ProgressCallback | None = None,
    device: str = "auto",
    classes: Sequence[str] | None = None,
) -> Predictions:
    """Return predictions for image files and folders of images; ``folder`` is a run folder or its ``model/`` folder.

    With ``classes``, the semantic head chooses among these class names, which need not be those of the training.
    Images are made square as in training on a folder: upright, the centre, the shorter side resized.
    """
    entries = list(find_photos(paths))
    predictor = load(folder, head, device, classes)
    found: list[Prediction] = []
    for batch in predictor.stream(entries):
        found += batch
        if report is not None:
            report("predicting", len(found), len(entries))
    rows = tuple(each for each in found if each.error is None)
    skipped = tuple(f"{each.path} ({each.error})" for each in found if each.error is not None)
    check_some(len(rows), len(found), skipped)
    return Predictions(rows, skipped, predictor.about)


@dataclass(frozen=True)
class Output:
    """Where the predictions are written, and which columns they have."""

    file: Path | None
    """None: standard output."""
    format: str | None = None
    """csv, jsonl or parquet; None: what the ending of the file says."""
    top: int = 2
    least: float | None = None
    """Confidence from which an answer counts as sure."""
    sort_into: Path | None = None
    """A folder for copies of the photos, in sure/ and unsure/."""
    force: bool = False
    """Overwrite what is there."""

    def into(self, file: Path) -> Output:
        """Return these options for one Parquet file of a folder."""
        return replace(self, file=file, format="parquet")

    def check(self) -> None:
        """Refuse what cannot be written, before anything is predicted."""
        choose_format(self.file, self.format)
        self.check_numbers()
        for path in (self.file, self.sort_into):
            if path is not None:
                check_new(path, self.force)

    def check_numbers(self) -> None:
        """Refuse numbers that are out of range."""
        if self.top < 1:
            raise UserError(f"the number of classes per photo is at least 1, not {self.top}.")
        if self.least is not None and not 0 <= self.least <= 1:
            raise UserError(f"the lowest confidence is a number from 0 to 1, not {self.least}.")
        if self.sort_into is not None and self.least is None:
            raise UserError("photos are sorted by their confidence: give the lowest one that counts as sure.")


@dataclass
class Summary:
    """How many photos were predicted, and which could not be read."""

    predicted: int = 0
    none_of_these: int = 0
    """Those of them that show none of the classes."""
    unreadable: int = 0
    skipped: list[str] = field(default_factory=list)  # the first of them, with the reasons

    def add(self, batch: Sequence[Prediction]) -> None:
        skipped = [f"{each.path} ({each.error})" for each in batch if each.error is not None]
        none = sum(each.label == NONE_OF_THESE for each in batch)
        self.add_counts(len(batch) - len(skipped), none, len(skipped), skipped)

    def add_counts(self, predicted: int, none_of_these: int, unreadable: int, skipped: Sequence[str]) -> None:
        """Add what another summary has counted."""
        self.predicted += predicted
        self.none_of_these += none_of_these
        self.unreadable += unreadable
        self.skipped += skipped[: NAMED_SKIPPED - len(self.skipped)]


def predict_into(
    output: Output,
    predictor: Predictor,
    photos: Sequence[str | Path],
    on_progress: Callable[[int], None] = lambda _count: None,
    standard_input: TextIO | None = None,
) -> Summary:
    """Predict the photos that the arguments name (`find_photos`) and write one row for each, in order."""
    check_photos(photos)
    output.check()
    return write_predictions(output, predictor, find_photos(photos, standard_input), on_progress, some=True)


def write_predictions(
    output: Output,
    predictor: Predictor,
    photos: Iterator[Entry],
    on_progress: Callable[[int], None] = lambda _count: None,
    *,
    some: bool = False,
) -> Summary:
    """Predict photos and write one row for each, in order; with ``some``, at least one must be readable."""
    rows = Rows(predictor.about, output.top, output.least, says_none=predictor.threshold is not None)
    format_name, summary = choose_format(output.file, output.format), Summary()
    with open_table(output.file, format_name, rows, sys.stdout) as table:
        _write_all(output, predictor, photos, table, summary, on_progress)
        if some:
            check_some(summary.predicted, summary.unreadable, summary.skipped)
    return summary


def _write_all(
    output: Output,
    predictor: Predictor,
    photos: Iterator[Entry],
    table: Table,
    summary: Summary,
    on_progress: Callable[[int], None],
) -> None:
    sorter = None if output.sort_into is None else Sorter(output.sort_into, output.least or 0.0)
    for entries, batch in predictor.stream_entries(photos, output.top):
        table.write(batch)
        summary.add(batch)
        if sorter is not None:
            for entry, prediction in zip(entries, batch, strict=True):
                sorter.add(entry, prediction)
        on_progress(summary.predicted + summary.unreadable)


def check_some(predicted: int, count: int, skipped: Sequence[str]) -> None:
    """Refuse a result without any prediction."""
    if not predicted and not count:
        raise UserError("no images to predict; give image files, folders of images or lists of them.")
    if not predicted:
        raise UserError(f"none of the {count} images can be read; the first one is {skipped[0]}.")
