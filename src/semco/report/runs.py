"""Reading run folders for a report: whatever is there, of a run that may be finished, going on or killed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from semco.config import read_yaml
from semco.config.schema import DEFAULT_METHOD
from semco.errors import UserError
from semco.files import read_json
from semco.run.folder import RunFolder

Series = tuple[list[float], list[float]]
Part = Literal["test", "validation"]


@dataclass(frozen=True)
class Run:
    """What one run folder holds; parts that are not written yet are empty."""

    path: Path
    config: Mapping[str, Any]
    labels: Mapping[str, Any] = field(default_factory=dict)
    split: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[Mapping[str, Any], ...] = ()
    result: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return bool(self.result)

    @property
    def method(self) -> str:
        return str(self.section("method").get("name", DEFAULT_METHOD))

    @property
    def seed(self) -> int:
        return int(self.section("training").get("seed", 0))

    @property
    def data(self) -> str:
        """By which to know the training images, at their size, and their labels again."""
        return f"{self.split.get('images')} {self.split.get('labels_sha256')}"

    @property
    def class_names(self) -> list[str]:
        names = self.labels.get("names") or self.evaluation.get("class_names") or []
        return [str(name) for name in names]

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return int(self.result.get("steps") or self._last("step") or 0)

    @property
    def seconds(self) -> float | None:
        """Training time so far."""
        value = self.result.get("seconds") or self._last("seconds")
        return None if value is None else float(value)

    def section(self, name: str) -> Mapping[str, Any]:
        """One section of the configuration as plain values."""
        value = self.config.get(name)
        return value if isinstance(value, Mapping) else {}

    def label_count(self) -> int | None:
        """Labelled images used, or None where every label was."""
        data, used = self.section("data"), self.result.get("num_labels")
        some = data.get("labels_per_class") or data.get("num_labels")
        if used and (some or self.split.get("validation")):
            return int(used)
        if not some:
            return None
        return int(data.get("num_labels") or data["labels_per_class"] * len(self.class_names))

    def accuracy(self, part: Part = "test") -> float | None:
        """Of a finished run, on its test or validation images."""
        value = self.result.get(f"{part}_accuracy")
        return None if value is None else float(value)

    def series(self, key: str) -> Series:
        """Steps and finite values of one metric, where it was logged."""
        points = [(float(line["step"]), line[key]) for line in self.metrics if _is_number(line.get(key))]
        return [step for step, _ in points], [float(value) for _, value in points]

    def keys(self, prefix: str) -> list[str]:
        """Names of logged metrics that start with ``prefix``, in the order in which they first came."""
        return [k for k in dict.fromkeys(k for line in self.metrics for k in line) if k.startswith(prefix)]

    def pseudo_label_heads(self) -> list[str]:
        """The heads that made pseudo-labels."""
        return [key.split("/")[1] for key in self.keys("pseudo/") if key.endswith("/ratio")]

    def _last(self, key: str) -> float | None:
        return next((line[key] for line in reversed(self.metrics) if _is_number(line.get(key))), None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def read_run(path: Path) -> Run:
    """A run as far as it is written; only a folder without a configuration is refused."""
    folder = RunFolder.open(path)
    lines = [line for line in folder.metrics() if isinstance(line, dict) and _is_number(line.get("step"))]
    return Run(
        path,
        read_yaml(folder.config_file.read_text(encoding="utf-8"), str(folder.config_file)),
        labels=_optional(folder.labels_file),
        split=_optional(folder.split_file),
        metrics=tuple(sorted(lines, key=lambda line: float(line["step"]))),
        result=_optional(folder.result_file),
        evaluation=_optional(path / "evaluation.json"),
    )


def _optional(file: Path) -> dict[str, Any]:
    """A JSON object, or nothing where it was not written; one that is there but broken is an error."""
    if not file.exists():
        return {}
    value = read_json(file)
    if not isinstance(value, dict):
        raise UserError(f"{file} must hold one JSON object, not {type(value).__name__}.")
    return value
