"""The typed content of ``result.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from semco.errors import UserError
from semco.run.accuracy import Accuracy, Difference, percent


class ProbeResult(BaseModel):
    """What a linear probe on the initial features achieves with the same labels: the baseline of the run."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    accuracy: Accuracy | None = None
    """Its accuracy on the images on which that of the run was measured."""
    difference: Difference | None = None
    """By how much the model of the run is more accurate than the probe on these images."""
    is_kept: bool = False
    """Whether the probe is the model of the run, because it was better on images whose labels were held out."""


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
    """Seconds from the start of the command to the result; of a resumed run, with those of its steps before."""
    precision: str = "float32"
    """Precision in which the backbone computed: float32 or bfloat16."""
    accuracy: Accuracy | None = None
    """The accuracy that is shown: on test images if there are any, else on validation images, else by
    cross-validation on the labelled images; None without any of them."""
    untested_classes: list[str] = Field(default_factory=list)
    """Classes without an image in a cross-validated accuracy: their only label cannot be held out."""
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
    """The linear probe, in other runs that start from loaded weights."""

    @classmethod
    def parse(cls, values: Mapping[str, Any], file: Path) -> RunResult:
        """Return the result with these values; the error names the file that they were read from, and the field."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "the file"
            raise UserError(f"{file} is not a result of a run ({field}: {first['msg'].lower()}).") from None


def describe_accuracy(result: RunResult) -> str:
    """Return the accuracy of a run in one phrase."""
    return result.accuracy.describe() if result.accuracy else "trained (there are no labelled images to test on)"


def describe_probe(result: RunResult) -> str | None:
    """Return one line that puts the linear probe beside a run, or None if there was none."""
    probe = result.probe
    if probe is None or probe.accuracy is None or probe.difference is None:
        return None
    if probe.is_kept:
        return "the model is the linear probe, which was better on images whose labels were held out"
    return f"a linear probe on the same images: {percent(probe.accuracy.value)} ({probe.difference.describe()})"


NAMED = 5  # untested classes that a line names


def describe_untested(result: RunResult) -> str | None:
    """Return one line about the classes that the cross-validation could not test; None if there are none."""
    names = result.untested_classes
    if not names:
        return None
    if len(names) == 1:
        return f"{names[0]} has one label and could not be tested"
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    if len(names) > NAMED:
        listed = f"{', '.join(names[:NAMED])} and {len(names) - NAMED:,} more"
    return f"{listed} have one label each and could not be tested"


def describe_result(result: RunResult) -> list[str]:
    """Return the lines about a run that a command ends with, the accuracy first."""
    lines = (describe_probe(result), describe_untested(result), describe_sure(result))
    return [describe_accuracy(result), *(line for line in lines if line is not None)]


def describe_sure(result: RunResult) -> str | None:
    """Return one line about the unlabelled images that a fitted head is sure of; None for other methods."""
    ratio = result.pseudo_labels.get("one_hot", {}).get("ratio")
    if result.steps or ratio is None:
        return None
    return f"sure of {100 * ratio:.0f} % of the unlabelled images: their confidence is 90 % or more"
