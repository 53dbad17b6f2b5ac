"""When two configurations are the same run, the same experiment, or a fair comparison.

Every field decides the result of a run, except those listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semco.config import DATASETS, Config, changed_fields, flat_fields
from semco.errors import UserError
from semco.run.seal import digest_of

# Where things are; they may change between two parts of a run.
LOCATIONS = frozenset(
    {
        "data.source",
        "data.root",
        "data.labels_from",
        "data.unlabeled",
        "data.memory",
        "data.labelled_from",
        "labels.path",
        "training.device",
    }
)
# What changes the speed or the log of a run, but not its result.
RUNTIME = frozenset(
    {
        "data.root",
        "data.memory",
        "training.device",
        "training.frozen_engine",
        "training.recompute",
        "training.log_every",
        "training.validate_every",
        "training.checkpoint_every",
        "training.statistics",
        "evaluation.batch_size",
    }
)
SEED = frozenset({"training.seed"})
# The sections in which the runs of a fair comparison are equal; they may differ in the method and the label vectors.
EQUAL_SECTIONS = ("data", "model", "augment", "optim", "training")

Changes = dict[str, tuple[Any, Any]]


def changes_of_run(old: Mapping[str, Any], new: Mapping[str, Any]) -> Changes:
    """Return the fields that make ``new`` another run than ``old``; moved data do not."""
    return changed_fields(old, new, LOCATIONS)


def check_same_run(saved: Mapping[str, Any], config: Config, file: Path) -> None:
    """Refuse a configuration, read from ``file``, that makes another run than the saved one."""
    changes = changes_of_run(saved, config.model_dump(mode="json"))
    if changes:
        details = "; ".join(f"{name} was {old} and is {new}" for name, (old, new) in changes.items())
        raise UserError(
            f"{file} is not the configuration that this run was started with ({details}): restore it, or start a new "
            "run."
        )


def run_digest(config: Config) -> str:
    """Return a checksum of the fields that decide the result of a run."""
    fields = flat_fields(config.model_dump(mode="json"))
    return digest_of({name: value for name, value in fields.items() if name not in LOCATIONS})


def changes_of_command(old: Config, new: Config) -> Changes:
    """Return the fields that make a repeated command another run, including the data and label vectors it names."""
    changes = changes_of_run(old.model_dump(mode="json"), new.model_dump(mode="json"))
    if not _may_be_same_data(old.data.source, new.data.source):
        changes["data.source"] = (old.data.source, new.data.source)
    if old.labels.path != new.labels.path:
        changes["labels.path"] = (old.labels.path, new.labels.path)
    return changes


def _may_be_same_data(one: str, other: str) -> bool:
    """Return whether two sources may be the same data: a folder or file may be moved, but not renamed."""
    if one in DATASETS or other in DATASETS:
        return one == other
    return Path(one).name == Path(other).name


def changes_of_comparison(one: Config, other: Config) -> Changes:
    """Return the fields that make the comparison of two runs unfair."""
    old, new = ({name: getattr(each, name).model_dump(mode="json") for name in EQUAL_SECTIONS} for each in (one, other))
    return changed_fields(old, new, SEED)


def experiment_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that make an experiment, by dotted name; runs that differ in others are its repeats."""
    return {name: value for name, value in flat_fields(config).items() if name not in RUNTIME | SEED}
