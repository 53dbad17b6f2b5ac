"""Which training images are labelled, which are unlabelled, and which are held out for validation.

All of it is a function of the labels, the configuration and the seed. With the same seed, the images of fewer
labels per class are among those of more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.config import DataConfig
from semco.data.randomness import make_numpy_generator
from semco.errors import UserError

Index = NDArray[np.int64]
PoolRule = Literal["all", "unlabelled"]  # values of data.pool


@dataclass(frozen=True)
class Split:
    """Positions in the training set, ascending.

    ``pool`` says which images the unlabelled pool contains: every training image that is not held out ("all", as in
    FixMatch, Sohn et al. 2020: the labels of labelled images are not used there), or only those that are not
    labelled either ("unlabelled").
    """

    labelled: Index
    unlabelled: Index
    validation: Index
    checksum: str  # of the labels that were split
    pool: PoolRule = "all"

    @property
    def num_without_label(self) -> int:
        """Number of images in the pool that are not labelled."""
        return len(self.unlabelled) - (len(self.labelled) if self.pool == "all" else 0)

    def to_json(self) -> str:
        """Return the split as JSON; the images of the pool follow from the rest and are not listed."""
        return json.dumps(
            {
                "train_images": self.num_without_label + len(self.labelled) + len(self.validation),
                "labels_sha256": self.checksum,
                "labelled": self.labelled.tolist(),
                "validation": self.validation.tolist(),
                "pool": self.pool,
            }
        )

    @classmethod
    def from_json(cls, text: str, labels: Tensor) -> Split:
        """The split that was written, if the training labels are still those it was made for."""
        try:
            values = json.loads(text)
            labelled, validation = (np.asarray(values[k], dtype=np.int64) for k in ("labelled", "validation"))
            checksum = str(values["labels_sha256"])
            pool: PoolRule = values.get("pool", "all")  # older files have no such key
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"the saved split is damaged ({error}); start a new run.") from None
        if pool not in get_args(PoolRule):
            raise UserError(f"the saved split is damaged (unknown pool {pool!r}); start a new run.")
        if checksum != label_checksum(labels):
            raise UserError(
                f"the training labels ({len(labels)} images) are not those this split was made for "
                f"({values.get('train_images')} images): put the data back as it was, or start a new run."
            )
        for part in (labelled, validation):
            if part.ndim != 1 or ((part < 0) | (part >= len(labels))).any():
                raise UserError("the saved split is damaged (it names images that do not exist); start a new run.")
        return cls(labelled, _pool(pool, len(labels), labelled, validation), validation, checksum, pool)


def hidden_truth(labels: Tensor, split: Split) -> Tensor:
    """What training images (N,) truly show, as far as it can judge pseudo-labels: (N,), -1 where it cannot.

    Where some images have no label, those that do are the ones that are learned from, and say nothing of the others.
    """
    truth = labels.clone()
    if bool((labels < 0).any()):
        truth[torch.from_numpy(split.labelled)] = -1
    return truth


def label_checksum(labels: Tensor) -> str:
    return hashlib.sha256(labels.numpy(force=True).astype("<i8").tobytes()).hexdigest()


def make_split(labels: Tensor, config: DataConfig, seed: int, class_names: Sequence[str] | None = None) -> Split:
    """Split training labels (N,), -1 = unknown, as ``config`` asks; ``class_names`` default to numbers."""
    known = labels.numpy(force=True).astype(np.int64)
    names = list(class_names or (str(k) for k in range(int(known.max(initial=-1)) + 1)))
    members = _shuffled_members(known, len(names), seed)
    available = np.array([len(m) for m in members], dtype=np.int64)
    wanted = _label_counts(config, available, names, seed)
    rule = _validation_rule(config, available - wanted)
    held = _validation_counts(config, rule, wanted, available - wanted, len(known))
    used = wanted - held if rule == "labelled" else wanted
    # Labels come from the start of a class and spare validation images from its end: neither moves the other.
    end = wanted if rule == "labelled" else available
    labelled = _sorted([m[:u] for m, u in zip(members, used, strict=True)])
    validation = _sorted([m[e - h : e] for m, h, e in zip(members, held, end, strict=True)])
    pool = _pool(config.pool, len(known), labelled, validation)
    if len(pool) == 0:
        raise UserError(
            f"data.pool = {config.pool!r} leaves no image in the unlabelled pool: of {len(known)} training images, "
            f"{len(labelled)} are labelled and {len(validation)} held out for validation; use fewer labels, add images "
            "without a label, or set data.pool to 'all'."
        )
    return Split(labelled, pool, validation, label_checksum(labels), config.pool)


def _shuffled_members(known: Index, classes: int, seed: int) -> list[Index]:
    """The images of each class in a seeded order."""
    by_class = np.argsort(known, kind="stable")
    start = np.searchsorted(known[by_class], np.arange(classes + 1))
    members = [by_class[start[k] : start[k + 1]] for k in range(classes)]
    return [make_numpy_generator(seed, "split", k).permutation(m) for k, m in enumerate(members)]


def _label_counts(config: DataConfig, available: Index, names: Sequence[str], seed: int) -> Index:
    """How many labels of each class are wanted."""
    classes = len(names)
    if classes < 2:
        raise UserError(f"a classifier needs labels of at least two classes, not {classes}.")
    if config.labels_per_class is not None:
        wanted = np.full(classes, config.labels_per_class)
    elif config.labels is not None:
        wanted = _spread(config.labels, classes, seed)
    else:
        wanted = available
    for name, want, have in zip(names, wanted, available, strict=True):
        if have == 0:
            raise UserError(f"class {name!r} has no labelled image: label some, or leave it out by data.classes.")
        if want > have:
            raise UserError(
                f"class {name!r} has {have} labelled images, but {want} are asked for: ask for fewer labels."
            )
    return wanted


def _spread(total: int, classes: int, seed: int) -> Index:
    if total < classes:
        raise UserError(f"{total} labels cannot cover {classes} classes: give at least {classes} labels.")
    counts = np.full(classes, total // classes)
    lucky = make_numpy_generator(seed, "split", "remainder").permutation(classes)[: total % classes]
    counts[lucky] += 1
    return counts


def _validation_rule(config: DataConfig, spare: Index) -> str:
    if config.validation != "auto":
        return config.validation
    return "train" if spare.any() else "labelled"


def _validation_counts(config: DataConfig, rule: str, wanted: Index, spare: Index, images: int) -> Index:
    """How many images of each class are held out."""
    if rule == "none":
        return np.zeros_like(wanted)
    if rule == "train":
        counts = _proportional(min(config.validation_size, images // 10), spare)
    else:  # a class keeps at least one of its labels
        counts = _proportional(min(config.validation_size, int(wanted.sum()) // 5), wanted - 1)
    if config.validation != "auto" and not counts.any():
        raise UserError(_nothing_to_hold_out(rule, int(spare.sum()), int(wanted.sum())))
    return counts


def _nothing_to_hold_out(rule: str, spare: int, labels: int) -> str:
    if rule == "train":
        reason = f"{spare} labelled images are not used as labels (at most a tenth of all images is held out)"
    else:
        reason = f"{labels} labels are too few (at most a fifth of them, and each class keeps one)"
    return f"data.validation = {rule!r} leaves no validation image: {reason}; choose another rule, or 'none'."


def _proportional(total: int, members: Index) -> Index:
    """At most ``total`` spread over the classes in proportion to their members (largest remainders first)."""
    total = min(total, int(members.sum()))
    if total == 0:
        return np.zeros_like(members)
    # In whole numbers, so that equal classes tie exactly.
    counts: Index = total * members // members.sum()
    remainders = total * members % members.sum()
    order = np.argsort(-remainders, kind="stable")[: total - int(counts.sum())]
    counts[order] += 1
    return counts


def _pool(rule: PoolRule, images: int, labelled: Index, validation: Index) -> Index:
    """Return the positions of the images in the unlabelled pool."""
    in_pool = np.ones(images, dtype=bool)
    in_pool[validation] = False
    if rule == "unlabelled":
        in_pool[labelled] = False
    return np.flatnonzero(in_pool)


def _sorted(parts: list[Index]) -> Index:
    return np.sort(np.concatenate(parts).astype(np.int64))
