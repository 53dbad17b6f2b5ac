"""The split: which training images are labelled, which are in the unlabelled pool, which are held out for validation.

The split depends only on the labels, the configuration and the seed. With the same seed, a split with fewer labels
per class uses a subset of the labelled images of a split with more.

Shapes: N training images, K classes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.config import DataConfig
from semco.data.datasets import Dataset
from semco.data.randomness import make_numpy_generator
from semco.data.sources.rows import lines_of
from semco.errors import UserError, brief
from semco.files import expand_home

Index = NDArray[np.int64]
PoolRule = Literal["all", "unlabelled"]  # values of data.pool
# In place of a true class: the class is not known; the image is labelled, so its pseudo-labels are not counted.
UNKNOWN, LABELLED = -1, -2


@dataclass(frozen=True)
class Split:
    """Positions of images in the training set, in ascending order."""

    labelled: Index
    unlabelled: Index  # the unlabelled pool
    validation: Index
    checksum: str  # of the labels that were split
    # Which images the pool contains: every image that is not held out ("all", as in FixMatch, Sohn et al. 2020), or
    # only those of them that are not labelled ("unlabelled").
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
        """Read a saved split; raise an error if the training labels (N,) are not those it was made for."""
        try:
            values = json.loads(text)
            labelled, validation = (_indices(values[k]) for k in ("labelled", "validation"))
            checksum = str(values["labels_sha256"])
            pool: PoolRule = values["pool"]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise UserError(f"the saved split is damaged ({error}); start a new run.") from None
        if pool not in get_args(PoolRule):
            raise UserError(f"the saved split is damaged (unknown pool {pool!r}); start a new run.")
        if checksum != label_checksum(labels):
            raise UserError(
                f"the training labels ({len(labels)} images) are not those this split was made for "
                f"({values.get('train_images')} images): restore the data, or start a new run."
            )
        for part in (labelled, validation):
            if part.ndim != 1 or ((part < 0) | (part >= len(labels))).any():
                raise UserError("the saved split is damaged (it refers to images that do not exist); start a new run.")
        if len(np.unique(np.concatenate([labelled, validation]))) < len(labelled) + len(validation):
            raise UserError("the saved split is damaged (an image is in it twice); start a new run.")
        return cls(labelled, _pool(pool, len(labels), labelled, validation), validation, checksum, pool)


def _indices(values: object) -> NDArray[np.int64]:
    """Return a list of whole numbers as an array; anything else raises a `TypeError`."""
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise TypeError("images are not listed by whole numbers")
    return np.asarray(values, dtype=np.int64)


def hidden_truth(labels: Tensor, split: Split) -> Tensor:
    """Return the true classes by which pseudo-labels are scored: (N,), `UNKNOWN`, or `LABELLED` for labelled images.

    The model was trained on the labels of labelled images, so its accuracy on them says nothing about the others.
    """
    truth = labels.clone()
    truth[torch.from_numpy(split.labelled)] = LABELLED
    return truth


def label_checksum(labels: Tensor) -> str:
    """Return a SHA-256 checksum of the labels (N,)."""
    return hashlib.sha256(labels.numpy(force=True).astype("<i8").tobytes()).hexdigest()


def make_split(
    labels: Tensor,
    config: DataConfig,
    seed: int,
    class_names: Sequence[str] | None = None,
    held_out: Tensor | None = None,
    chosen: Index | None = None,
) -> Split:
    """Split training images by their labels (N,), -1 = unlabelled; ``class_names`` default to numbers.

    ``held_out`` (N,) are the validation images of the source, which replace those that would be chosen here;
    ``chosen`` are the positions of the labelled images, if a list names them.
    """
    class_ids = labels.numpy(force=True).astype(np.int64)
    names = list(class_names or (str(k) for k in range(int(class_ids.max(initial=-1)) + 1)))
    if held_out is not None and bool(held_out.any()):
        return _with_held_out(labels, config, seed, names, held_out, chosen)
    members = _shuffle_classes(class_ids, len(names), seed)
    if chosen is not None:
        members = [_listed_first(m, chosen) for m in members]
    wanted, spare = _wanted_and_spare(class_ids, config, names, seed, chosen)
    available, rule = wanted + spare, config.validation
    num_held_out = _count_validation(config, wanted, spare, len(class_ids))
    # Labelled images come from the start of a class, and spare validation images from its end, so that the number of
    # one does not change the choice of the other.
    used = wanted - num_held_out if rule == "labelled" else wanted
    end = wanted if rule == "labelled" else available
    labelled = _join([m[:u] for m, u in zip(members, used, strict=True)])
    validation = _join([m[e - h : e] for m, h, e in zip(members, num_held_out, end, strict=True)])
    pool = _pool(config.pool, len(class_ids), labelled, validation)
    if len(pool) == 0:
        raise UserError(
            f"data.pool = {config.pool!r} leaves no image in the unlabelled pool: of {len(class_ids)} training images, "
            f"{len(labelled)} are labelled and {len(validation)} held out for validation; use fewer labels, add images "
            "without a label, or set data.pool to 'all'."
        )
    return Split(labelled, pool, validation, label_checksum(labels), config.pool)


def count_labels(
    labels: Tensor,
    config: DataConfig,
    seed: int,
    class_names: Sequence[str],
    held_out: Tensor | None = None,
    chosen: Index | None = None,
) -> tuple[int, int]:
    """Return how many labels a split would use, and how many are left; the arguments are those of `make_split`."""
    if held_out is not None and bool(held_out.any()):
        kept = torch.nonzero(~held_out).flatten()
        chosen = None if chosen is None else np.flatnonzero(np.isin(kept.numpy(), chosen))
        labels = labels[kept]
    class_ids = labels.numpy(force=True).astype(np.int64)
    wanted, spare = _wanted_and_spare(class_ids, config, class_names, seed, chosen)
    return int(wanted.sum()), int(spare.sum())


def _wanted_and_spare(
    class_ids: Index, config: DataConfig, names: Sequence[str], seed: int, chosen: Index | None
) -> tuple[Index, Index]:
    """Return how many labels of each class are used (K,), and how many are left (K,)."""
    available = np.bincount(class_ids[class_ids >= 0], minlength=len(names)).astype(np.int64)
    wanted = _count_labels(config, available, names, seed)
    if chosen is not None:
        wanted = _count_chosen(class_ids, chosen, names)
    return wanted, available - wanted


def _with_held_out(
    labels: Tensor, config: DataConfig, seed: int, names: Sequence[str], held_out: Tensor, chosen: Index | None
) -> Split:
    """Split the images that the source does not hold out; those that it does are the validation images."""
    kept = torch.nonzero(~held_out).flatten().numpy()
    inner = None if chosen is None else np.flatnonzero(np.isin(kept, chosen))
    rest = make_split(
        labels[torch.from_numpy(kept)], config.model_copy(update={"validation": "none"}), seed, names, None, inner
    )
    validation = torch.nonzero(held_out).flatten().numpy()  # all have a label: a source holds out no others
    return Split(kept[rest.labelled], kept[rest.unlabelled], validation, label_checksum(labels), config.pool)


def _listed_first(members: Index, chosen: Index) -> Index:
    """Return the images of a class with the chosen ones first, each kind in its order."""
    is_chosen = np.isin(members, chosen)
    return np.concatenate([members[is_chosen], members[~is_chosen]])


def _count_chosen(class_ids: Index, chosen: Index, names: Sequence[str]) -> Index:
    """Return how many images of each class are chosen (K,), after checking that each class has some."""
    counts = np.bincount(class_ids[chosen], minlength=len(names)).astype(np.int64)
    for name, count in zip(names, counts, strict=True):
        if count == 0:
            raise UserError(f"data.labelled_from lists no image of class {name!r}: list some, or choose data.classes.")
    return counts


def _shuffle_classes(class_ids: Index, classes: int, seed: int) -> list[Index]:
    """Return the positions of the images of each class, in a seeded order."""
    by_class = np.argsort(class_ids, kind="stable")
    start = np.searchsorted(class_ids[by_class], np.arange(classes + 1))
    members = [by_class[start[k] : start[k + 1]] for k in range(classes)]
    return [make_numpy_generator(seed, "split", k).permutation(m) for k, m in enumerate(members)]


def _count_labels(config: DataConfig, available: Index, names: Sequence[str], seed: int) -> Index:
    """Return how many labels of each class are wanted (K,), after checking that as many are available (K,)."""
    classes = len(names)
    if classes < 2:
        raise UserError(f"a classifier needs labels of at least two classes, not {classes}.")
    if config.labels_per_class is not None:
        wanted = _long_tail(config.labels_per_class, config.imbalance, classes)
    elif config.num_labels is not None and config.label_spread == "proportional":
        wanted = _spread_by_size(config.num_labels, available)
    elif config.num_labels is not None:
        wanted = _spread_evenly(config.num_labels, classes, seed)
    else:
        wanted = available
    for name, want, have in zip(names, wanted, available, strict=True):
        if have == 0:
            raise UserError(f"class {name!r} has no labelled image: label some, or leave it out of data.classes.")
        if want > have:
            raise UserError(f"class {name!r} has {have} labelled images, but {want} are wanted: use fewer labels.")
    return wanted


def _long_tail(largest: int, imbalance: float, classes: int) -> Index:
    """Return labels per class (K,) that fall geometrically from ``largest`` to ``largest / imbalance``, at least 1."""
    steps = np.arange(classes) / max(1, classes - 1)
    counts: Index = np.maximum(1, np.floor(largest * imbalance**-steps + 1e-9)).astype(np.int64)
    return counts


def _spread_by_size(total: int, available: Index) -> Index:
    """Return the number of labels per class (K,) in proportion to the images that it has, at least 1."""
    if total < len(available):
        raise UserError(f"{total} labels cannot cover {len(available)} classes: use at least {len(available)} labels.")
    return 1 + _spread_proportionally(total - len(available), np.maximum(available - 1, 0))


def _spread_evenly(total: int, classes: int, seed: int) -> Index:
    """Return the number of labels per class (K,); random classes get one more if the total is not a multiple of K."""
    if total < classes:
        raise UserError(f"{total} labels cannot cover {classes} classes: use at least {classes} labels.")
    counts = np.full(classes, total // classes)
    larger = make_numpy_generator(seed, "split", "remainder").permutation(classes)[: total % classes]
    counts[larger] += 1
    return counts


def _count_validation(config: DataConfig, wanted: Index, spare: Index, images: int) -> Index:
    """Return how many images of each class are held out for validation (K,)."""
    assert config.validation in ("train", "labelled", "none"), "the request was not resolved"
    if config.validation == "none":
        return np.zeros_like(wanted)
    if config.validation == "train":
        counts = _stratify(min(config.validation_size, images // 10), spare)
    else:  # each class keeps at least one of its labels
        counts = _stratify(min(config.validation_size, int(wanted.sum()) // 5), wanted - 1)
    if not counts.any():
        raise UserError(_no_validation_message(config.validation, int(spare.sum()), int(wanted.sum())))
    return counts


def _no_validation_message(rule: str, spare: int, labels: int) -> str:
    if rule == "train":
        reason = f"{spare} labelled images are not used as labels, and at most a tenth of all images is held out"
    else:
        reason = f"of {labels} labels at most a fifth is held out, and each class keeps one"
    return f"data.validation = {rule!r} leaves no validation image: {reason}; choose another value, or 'none'."


def _stratify(total: int, members: Index) -> Index:
    """Spread over classes in proportion to their ``members`` (K,), but at least one to each, as far as they go."""
    counts = _spread_proportionally(total, members)
    for empty in np.flatnonzero((counts == 0) & (members > 0)):
        largest = int(np.argmax(counts))
        if counts[largest] < 2:
            break
        counts[largest] -= 1
        counts[empty] += 1
    return counts


def _spread_proportionally(total: int, members: Index) -> Index:
    """Spread at most ``total`` over classes in proportion to their ``members`` (K,), largest remainders first."""
    total = min(total, int(members.sum()))
    if total == 0:
        return np.zeros_like(members)
    # Integer arithmetic, so that classes of equal size have exactly equal remainders.
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


def _join(parts: list[Index]) -> Index:
    """Return the elements of all parts in one sorted array."""
    return np.sort(np.concatenate(parts).astype(np.int64))


def read_labelled(config: DataConfig, dataset: Dataset) -> NDArray[np.int64] | None:
    """Return the positions of the images that the configured list names, in ascending order; None without a list."""
    if config.labelled_from is None:
        return None
    file = expand_home(config.labelled_from)
    known = _positions(config, dataset)
    found: set[int] = set()
    for number, line in lines_of(file):
        position = int(line) if line.isdecimal() and len(line) < 19 else known.get(os.path.normpath(line))
        if position is None or position >= len(dataset.train_labels):
            raise UserError(f"{file}, line {number}: there is no training image {brief(line)}; correct the line.")
        if dataset.train_labels[position] < 0:
            raise UserError(f"{file}, line {number}: {brief(line)} has no label; remove the line, or label the image.")
        found.add(position)
    return np.array(sorted(found), dtype=np.int64)


def _positions(config: DataConfig, dataset: Dataset) -> dict[str, int]:
    """Return the position of each training image by its path, and by its path relative to the source."""
    positions: dict[str, int] = {}
    root = str(expand_home(Path(config.root or config.source)))
    for position, path in enumerate(dataset.train_paths or ()):
        positions[path] = position
        positions[path.removeprefix(root).lstrip("/")] = position
    return positions
