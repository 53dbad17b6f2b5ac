"""Read run folders for a report; a run may be finished, in progress or interrupted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from semco.config import read_yaml
from semco.config.schema import method_name
from semco.files import read_text, readable_name
from semco.run.accuracy import Kind
from semco.run.data_record import read_data
from semco.run.folder import RunFolder
from semco.run.identity import check_same_run
from semco.run.result import RunResult

Series = tuple[list[float], list[float]]  # steps, values
EVALUATED: dict[Kind, tuple[str, str]] = {
    "test": ("test", ""),
    "validation": ("validation", "The model was not trained with their labels."),
    "cross_validation": ("labelled", "Each image is predicted by a model that was fitted without its label."),
}


@dataclass(frozen=True)
class Run:
    """The content of one run folder; files that are not written yet are empty here."""

    path: Path
    config: Mapping[str, Any]
    labels: Mapping[str, Any] = field(default_factory=dict)
    split: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[Mapping[str, Any], ...] = ()
    result: RunResult | None = None
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)  # notes about the data, skipped images
    variant: str = ""  # what the user has typed for it in a comparison: semco_plus+no-grouping

    @property
    def evaluated(self) -> str:
        """Which images confusions, results per class and example predictions are about: test, validation, labelled."""
        return EVALUATED.get(self.evaluation.get("kind", "test"), EVALUATED["test"])[0]

    @property
    def how_evaluated(self) -> str:
        """A sentence about models that did not learn from the labels of these images; empty for test images."""
        return EVALUATED.get(self.evaluation.get("kind", "test"), EVALUATED["test"])[1]

    @property
    def is_finished(self) -> bool:
        return self.result is not None

    @property
    def method(self) -> str:
        return method_name(self.section("method"))

    @property
    def seed(self) -> int:
        return int(self.section("training").get("seed", 0))

    @property
    def data_id(self) -> str:
        """A text that is equal for runs on the same training images, at the same size, with the same labels."""
        return f"{self.split.get('images')} {self.split.get('labels_sha256')}"

    @property
    def class_names(self) -> list[str]:
        names = self.labels.get("names") or self.evaluation.get("class_names") or []
        return [readable_name(str(name)) for name in names]

    @property
    def steps(self) -> int:
        """Number of training steps so far."""
        return int(self._last_value("step") or 0) if self.result is None else self.result.steps

    @property
    def seconds(self) -> float | None:
        """Training time so far; None if nothing is logged yet."""
        return self._last_value("seconds") if self.result is None else self.result.seconds

    @property
    def logged_seconds(self) -> float | None:
        """Training time at the last log line, without what came after it; None if nothing is logged yet."""
        return self._last_value("seconds")

    @property
    def labels_per_class(self) -> int | None:
        """Number of labels per class in the configuration, if it has one."""
        return self.section("data").get("labels_per_class") or None

    @property
    def is_label_limited(self) -> bool:
        """Whether the configuration limits the number of labels."""
        return bool(self.labels_per_class or self._total_labels)

    @property
    def num_labels(self) -> int | None:
        """Number of labelled images; None if every available label is used."""
        if self.result is not None and (self.is_label_limited or self.split.get("validation")):
            return self.result.num_labels
        if self.labels_per_class:
            return self.labels_per_class * len(self.class_names)
        return self._total_labels

    @property
    def _total_labels(self) -> int | None:
        return self.section("data").get("num_labels") or None

    def section(self, name: str) -> Mapping[str, Any]:
        """Return one section of the configuration as plain values."""
        value = self.config.get(name)
        return value if isinstance(value, Mapping) else {}

    def accuracy(self, kind: Kind = "test") -> float | None:
        """Return the accuracy of a finished run on its test or validation images, or by cross-validation."""
        if self.result is None:
            return None
        shown = self.result.accuracy
        if shown is not None and shown.kind == kind:
            return shown.value
        return {"test": self.result.test_accuracy, "validation": self.result.validation_accuracy}.get(kind)

    def series(self, metric: str) -> Series:
        """Return the steps at which a metric was logged with a finite value, and these values."""
        points = [(float(line["step"]), line[metric]) for line in self.metrics if _is_number(line.get(metric))]
        return [step for step, _ in points], [float(value) for _, value in points]

    def metric_names(self, prefix: str) -> list[str]:
        """Return the names of the logged metrics that start with ``prefix``, in order of first appearance."""
        names = dict.fromkeys(name for line in self.metrics for name in line)
        return [name for name in names if name.startswith(prefix)]

    def pseudo_label_heads(self) -> list[str]:
        """Return the heads that made pseudo-labels."""
        return [name.split("/")[1] for name in self.metric_names("pseudo/") if name.endswith("/ratio")]

    def _last_value(self, metric: str) -> float | None:
        _, values = self.series(metric)
        return values[-1] if values else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def read_runs(paths: Sequence[Path], variants: Mapping[Path, str] | None = None) -> list[Run]:
    """Read several runs; ``variants`` are those of a comparison, by run folder."""
    return [replace(read_run(path), variant=(variants or {}).get(path, "")) for path in paths]


def read_run(path: Path) -> Run:
    """Read what a run has written so far; only config.yaml is required."""
    folder = RunFolder.open(path)
    split = _read_if_exists(folder, folder.split_file)
    if "config" in split:
        check_same_run(split["config"], folder.config(), folder.config_file)
    lines = [line for line in folder.metrics() if isinstance(line, dict) and _is_number(line.get("step"))]
    return Run(
        path,
        read_yaml(read_text(folder.config_file), str(folder.config_file)),
        labels=_read_if_exists(folder, folder.labels_file),
        split=split,
        metrics=tuple(sorted(lines, key=lambda line: float(line["step"]))),
        result=folder.result() if folder.result_file.exists() else None,
        evaluation=_read_if_exists(folder, folder.evaluation_file),
        data=read_data(folder.path),
    )


def _read_if_exists(folder: RunFolder, file: Path) -> dict[str, Any]:
    """Read a JSON file of the run; return an empty object if there is no such file."""
    return folder.read_json(file) if file.exists() else {}
