"""The typed content of ``result.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from semco.errors import UserError

FEW_IMAGES = 30  # an accuracy on fewer images is shown with its interval


def wilson_interval(accuracy: float, images: int) -> tuple[float, float]:
    """Return the 95 % interval of Wilson (1927) for an accuracy that was measured on so many images."""
    z = 1.959964
    centre = accuracy + z * z / (2 * images)
    half = z * math.sqrt(accuracy * (1 - accuracy) / images + z * z / (4 * images * images))
    scale = 1 + z * z / images
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def describe_interval(accuracy: float, images: int | None) -> str:
    """Return the interval of an accuracy as text, an empty one if it was measured on enough images."""
    if images is None or not 0 < images < FEW_IMAGES:
        return ""
    low, high = wilson_interval(accuracy, images)
    return f"{low:.0%} to {high:.0%} at 95 % confidence, as there are only {images} images"


class ProbeResult(BaseModel):
    """What a linear probe on the initial features achieves with the same labels: the yardstick of the run."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    strength: float
    """C of the logistic regression."""
    cross_validation: float | None = None
    """Accuracy on labelled images that were left out in turn."""
    validation_accuracy: float | None = None
    """Accuracy on the validation images."""
    test_accuracy: float | None = None
    """Accuracy on the test images."""
    held_out_images: int | None = None
    """Number of images on which it is compared with the trained network: validation images, or all labelled images,
    each predicted by models that were trained without its label."""
    held_out_accuracy: float | None = None
    """Its accuracy on them."""
    trained_accuracy: float | None = None
    """Accuracy of the trained network on them."""
    is_kept: bool = False
    """Whether the probe is the model of the run, because the trained network was worse."""


class RunResult(BaseModel):
    """What a finished run achieved. Fields about test images are None if there were none."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    method: str
    """The method that was trained."""
    run: str
    """The run folder."""
    head: str
    """The head that predicts."""
    num_labels: int
    """Number of labelled images."""
    steps: int
    """Number of training steps."""
    seconds: float
    """Duration of the training in seconds."""
    precision: str = "float32"
    """Precision in which the backbone computed: float32 or bfloat16."""
    validation_accuracy: float | None = None
    """Accuracy on the validation images."""
    validation_images: int | None = None
    """Number of validation images."""
    skipped_images: int = 0
    """Number of images that could not be read; data.json lists them."""
    test_accuracy: float | None = None
    """Accuracy on the test images."""
    test_error: float | None = None
    """1 - test_accuracy."""
    test_images: int | None = None
    """Number of test images."""
    top5: float | None = None
    """Fraction of test images whose class is among the five most likely ones."""
    group_accuracy: float | None = None
    """Fraction of test images that are given a class of the right group."""
    calibration_error: float | None = None
    """Expected calibration error on the test images."""
    per_class: dict[str, float | None] = Field(default_factory=dict)
    """Accuracy on the test images of each class."""
    per_group: dict[str, float | None] = Field(default_factory=dict)
    """Group accuracy on the test images of each group."""
    heads: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Accuracy, top-5 accuracy, group accuracy and calibration error on the test images, of every head."""
    pseudo_labels: dict[str, dict[str, float | None]] = Field(default_factory=dict)
    """Statistics of the final pseudo-labels of the pool, by head."""

    probe: ProbeResult | None = None
    """The linear probe, in runs that start from loaded weights."""

    @classmethod
    def parse(cls, values: Mapping[str, Any], file: Path) -> RunResult:
        """Return the result with these values; the error names the file that they were read from, and the field."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "the file"
            raise UserError(f"{file} is not a result of a run ({field}: {first['msg'].lower()}).") from None

    def headline(self) -> tuple[str, float] | None:
        """Return the best accuracy there is, with its name: on test images, else on validation images, else None."""
        if self.test_accuracy is not None:
            return "test accuracy", self.test_accuracy
        if self.validation_accuracy is not None:
            return "validation accuracy", self.validation_accuracy
        return None

    def headline_interval(self) -> str:
        """Return the interval of the headline as text, an empty one if it was measured on enough images."""
        headline = self.headline()
        images = self.validation_images if self.test_accuracy is None else self.test_images
        return "" if headline is None else describe_interval(headline[1], images)


def describe_headline(result: RunResult) -> str:
    """Return the best accuracy there is as text."""
    headline, interval = result.headline(), result.headline_interval()
    if headline is None:
        return "trained (there are no images to test on)"
    return f"{headline[0]} {headline[1]:.1%}" + (f" ({interval})" if interval else "")


def describe_probe(result: RunResult) -> str | None:
    """Return one line about the linear probe of a trained run, or None if there was none."""
    probe = result.probe
    if probe is None or not result.steps:
        return None
    kept = "; it was better than training and is kept" if probe.is_kept else ""
    if not probe.is_kept and result.test_accuracy is None:  # accuracies on test images are not what decided
        kept = _why_not_kept(probe)
    measured = probe.validation_accuracy if result.test_accuracy is None else probe.test_accuracy
    if measured is not None:
        return f"linear probe on the same labels: {measured:.1%}{kept}"
    if probe.held_out_accuracy is None or probe.trained_accuracy is None:
        return None
    held_out = f"trained {probe.trained_accuracy:.1%}, linear probe {probe.held_out_accuracy:.1%}{kept}"
    interval = describe_interval(probe.trained_accuracy, probe.held_out_images)
    between = f" (trained: {interval})" if interval else ""
    return f"accuracy on {probe.held_out_images} labelled images that were held out in turn: {held_out}{between}"


def _why_not_kept(probe: ProbeResult) -> str:
    """Return why the trained network is kept, if the probe was right for more of the held-out images."""
    if probe.held_out_accuracy is None or probe.trained_accuracy is None:
        return ""
    is_higher = probe.held_out_accuracy > probe.trained_accuracy
    return "; the difference is within one standard deviation, so the trained network is kept" if is_higher else ""
