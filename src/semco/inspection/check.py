"""Read every image of a source once and report what matters for a run on it.

Shapes: N images, K classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from semco.config import DataConfig, LabelsConfig, ModelConfig
from semco.data.datasets import ProgressCallback
from semco.data.decode import LARGEST_DEFAULT
from semco.data.listing import UNLABELLED, Entry, Listing
from semco.data.sources import list_source, no_such_source, source_exists
from semco.errors import UserError
from semco.files import readable_name
from semco.inspection.duplicates import Duplicates, find_duplicates
from semco.inspection.facts import KINDS, ImageFacts, count_kinds, inspect_part
from semco.labels import label_source
from semco.models import has_weights

# Images with a shorter side below this are icons or small crops, for which ImageNet weights help little.
SMALL_SIDE = 64
PHOTO_BACKBONE, PHOTO_SIZE, SMALL_BACKBONE = "efficientnet-lite2", 260, "wrn-28-2"
# Labels per class up to which another label is worth its work; FEW: below it, labels come first.
ENOUGH_LABELS, FEW_LABELS = 10, 5
NAMED = 10  # classes that are named in a sentence


@dataclass(frozen=True)
class Advice:
    """Suggestions, each with the number that it follows from."""

    median_side: int  # of the shorter sides of the readable images
    image_size: int
    backbone: str
    is_installed: bool  # whether the weights of the backbone are installed, if it has any
    labels: tuple[int, ...]  # of each class
    wanted: tuple[int, ...]  # labels of each class that are still worth giving
    unlabelled: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self, names: Sequence[str]) -> list[str]:
        """Return the suggestions as sentences."""
        weights = "" if self.is_installed or self.backbone == SMALL_BACKBONE else " (install its weights first)"
        return [
            f"image size: {self.image_size} x {self.image_size}, backbone {self.backbone}{weights}, because the median "
            f"shorter side is {self.median_side} pixels (from {SMALL_SIDE} pixels on: pretrained weights at their own "
            f"size; below: the images as they are, from scratch)",
            self._labels_line(names),
        ]

    def _labels_line(self, names: Sequence[str]) -> str:
        rule = f"(the rule: {FEW_LABELS} to {ENOUGH_LABELS} per class, the classes with the fewest first)"
        total = sum(self.wanted)
        if total == 0:
            return f"labels: enough, every class has at least {min(self.labels, default=0)} {rule}"
        if self.unlabelled == 0:
            return f"labels: {total:,} more would help, but there are no unlabelled images to label {rule}"
        order = sorted(range(len(names)), key=lambda k: (-self.wanted[k], k))
        first = [f"{readable_name(names[k])} {self.wanted[k]}" for k in order[:NAMED] if self.wanted[k]]
        more = ", ..." if sum(w > 0 for w in self.wanted) > NAMED else ""
        return f"labels: {total:,} more are worth giving: {', '.join(first)}{more} {rule}"


def advise(facts: Sequence[ImageFacts], labels: Sequence[int], unlabelled: int) -> Advice:
    """Return suggestions from the facts about images, the labels of each class (K,) and the number of others."""
    sides = [min(each.width, each.height) for each in facts if each.is_readable]
    median = int(np.median(sides)) if sides else 0
    is_photo = median >= SMALL_SIDE
    backbone = PHOTO_BACKBONE if is_photo else SMALL_BACKBONE
    small_size = max(8, 8 * round(min(median, LARGEST_DEFAULT) / 8))
    return Advice(
        median_side=median,
        image_size=PHOTO_SIZE if is_photo else small_size,
        backbone=backbone,
        is_installed=has_weights(ModelConfig(backbone=backbone)),
        labels=tuple(labels),
        wanted=tuple(max(0, ENOUGH_LABELS - count) for count in labels),
        unlabelled=unlabelled,
    )


TRAIN, UNLABELED, VALIDATION, TEST = "train", "unlabelled", "validation", "test"
SKIPPED = "skipped"  # in place of these, for images that cannot be read, which a run does not use
MOST_LISTED = 200  # images or groups of each kind in the JSON output


@dataclass(frozen=True)
class ClassName:
    """A class name and the term of the vocabulary that it was taken for."""

    name: str
    term: str
    route: str  # how it was found


@dataclass(frozen=True)
class Check:
    """What was found in a source."""

    source: str
    listing: Listing
    facts: tuple[ImageFacts, ...]  # of the training images, then of the test images
    places: tuple[str, ...]  # of each image: train, unlabelled, validation or test
    duplicates: tuple[Duplicates, ...]
    names: tuple[ClassName, ...]
    notes: tuple[str, ...]
    advice: Advice

    def entry(self, position: int) -> Entry:
        """Return an image by its position among all images."""
        train = len(self.listing.train)
        return self.listing.train[position] if position < train else self.listing.test[position - train]

    def label(self, position: int) -> int:
        """Return the class of an image, -1 if it has none."""
        train = len(self.listing.train)
        part = self.listing.train if position < train else self.listing.test
        return part.labels[position if position < train else position - train]

    def describe(self, position: int) -> str:
        """Return the place and the class of an image, such as ``test, tabby``."""
        label = self.label(position)
        return self.places[position] + (f", {self.listing.class_names[label]}" if label != UNLABELLED else "")

    def members(self, group: Duplicates) -> list[int]:
        """Return the images of a group; one of each place and class comes first."""
        first = {self.describe(i): i for i in reversed(group.members)}
        ahead = sorted(first.values(), key=lambda i: (self.places[i] != TEST, i))
        return [*ahead, *(i for i in group.members if i not in ahead)]

    @property
    def leaks(self) -> list[Duplicates]:
        """Groups of duplicates that are in the test images and elsewhere: the test would be too easy."""
        return [each for each in self.duplicates if TEST in self._places(each) and len(self._places(each)) > 1]

    @property
    def conflicts(self) -> list[Duplicates]:
        """Groups of duplicates that have labels of different classes."""
        labels = [{self.label(i) for i in each.members} - {UNLABELLED} for each in self.duplicates]
        return [each for each, found in zip(self.duplicates, labels, strict=True) if len(found) > 1]

    @property
    def copies(self) -> list[Duplicates]:
        """The other groups of duplicates."""
        return [each for each in self.duplicates if each not in self.leaks and each not in self.conflicts]

    def _places(self, group: Duplicates) -> set[str]:
        return {self.places[i] for i in group.members}

    @property
    def used_in(self) -> list[str]:
        """The place in which a run uses each image, or that it skips the image."""
        return [place if each.is_readable else SKIPPED for place, each in zip(self.places, self.facts, strict=True)]

    def totals(self) -> dict[str, int]:
        """Return the number of images in each place; they are those of a run."""
        found = Counter(self.used_in)
        return {place: found[place] for place in (TRAIN, VALIDATION, UNLABELED, TEST, SKIPPED) if found[place]}

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the number of images of each class in each place, and of those without a class under an empty name."""
        names = (*self.listing.class_names, "")
        found = Counter((names[self.label(i)], place) for i, place in enumerate(self.used_in))
        return {name: {place: found[name, place] for place in self.totals()} for name in names}

    def problems(self) -> list[tuple[int, str]]:
        """Return the positions of images that cannot be read, with the reasons."""
        return [(i, each.reason) for i, each in enumerate(self.facts) if each.reason is not None]

    def to_json(self) -> dict[str, Any]:
        """Return everything that was found, with at most `MOST_LISTED` images of each kind."""
        return {
            "source": self.source,
            "images": len(self.facts),
            "classes": self.counts(),
            "kinds": count_kinds(self.facts),
            "unreadable": [[self._name(i), reason] for i, reason in self.problems()[:MOST_LISTED]],
            "unusual": {
                kind: [self._name(i) for i, each in enumerate(self.facts) if kind in each.kinds][:MOST_LISTED]
                for kind in count_kinds(self.facts)
            },
            "leaks": self._groups(self.leaks),
            "conflicts": self._groups(self.conflicts),
            "copies": self._groups(self.copies),
            "num_leaks": len(self.leaks),
            "num_conflicts": len(self.conflicts),
            "num_copies": len(self.copies),
            "names": [{"name": readable_name(n.name), "term": n.term, "route": n.route} for n in self.names],
            "ignored": dict(self.listing.ignored),
            "notes": list(self.notes),
            "advice": self.advice.to_json(),
        }

    def _groups(self, groups: Sequence[Duplicates]) -> list[dict[str, Any]]:
        return [
            {"exact": each.is_exact, "images": [[self._name(i), self.describe(i)] for i in each.members[:MOST_LISTED]]}
            for each in groups[:MOST_LISTED]
        ]

    def _name(self, position: int) -> str:
        return readable_name(self.entry(position).name)


def check_source(config: DataConfig, on_progress: ProgressCallback | None = None) -> Check:
    """Read every image of a source once and return what was found."""
    listing = list_source(config)
    if listing is None and not source_exists(config.source):
        raise no_such_source(config.source)
    if listing is None:
        raise UserError(f"{config.source!r} is no folder of images: give the path of one; arrays need no check.")
    facts = [
        *inspect_part(listing.train, on_progress, "reading training images"),
        *inspect_part(listing.test, on_progress, "reading test images"),
    ]
    places = [_place(label, held) for label, held in zip(listing.train.labels, listing.train.held_out, strict=True)]
    names, notes = _look_up(listing.class_names)
    labels = Counter(label for label, each in zip(listing.train.labels, facts, strict=False) if each.is_readable)
    return Check(
        source=config.source,
        listing=listing,
        facts=tuple(facts),
        places=(*places, *[TEST] * len(listing.test)),
        duplicates=tuple(find_duplicates(facts)),
        names=names,
        notes=(*listing.notes, *notes),
        advice=advise(facts, [labels[k] for k in range(len(listing.class_names))], labels[UNLABELLED]),
    )


def _place(label: int, held_out: int) -> str:
    if held_out:
        return VALIDATION
    return UNLABELED if label == UNLABELLED else TRAIN


def _look_up(names: Sequence[str]) -> tuple[tuple[ClassName, ...], tuple[str, ...]]:
    """Return what class names were taken for, and notes about those that were not found or are not certain."""
    readable = [name for name in names if name.strip()]
    empty = tuple(f"the class name {name!r} is empty; give its folder a name." for name in names if not name.strip())
    try:
        found = label_source(LabelsConfig()).vectors(readable)
    except UserError as error:
        return (), (*empty, str(error))
    rows = zip(found.names, found.terms, found.routes, strict=True)
    return tuple(ClassName(*row) for row in rows), (*empty, *found.notes)


def lines(check: Check) -> list[str]:
    """Return what was found as text, the most important first."""
    found = [f"{check.source}: {len(check.listing.class_names)} classes, {_places_line(check)}"]
    for title, groups in (("leaks", check.leaks), ("different labels", check.conflicts), ("duplicates", check.copies)):
        found += _group_lines(check, title, groups)
    found += [f"{kind}: {count:,} ({KINDS[kind]})" for kind, count in count_kinds(check.facts).items()]
    found += [f"  {readable_name(check.entry(i).name)}: {reason}" for i, reason in check.problems()[:SHOWN]]
    found += [f"note: {note}" for note in check.notes]
    return found + check.advice.lines(check.listing.class_names)


SHOWN = 5  # examples of each kind in the text output
_MEANINGS = {
    "leaks": "the same picture is in the test images and elsewhere, so the test is too easy",
    "different labels": "the same picture has labels of different classes",
    "duplicates": "the same picture occurs more than once",
}


def _group_lines(check: Check, title: str, groups: Sequence[Duplicates]) -> list[str]:
    if not groups:
        return []
    exact = sum(each.is_exact for each in groups)
    head = f"{title}: {len(groups):,}, of which {exact:,} are the same file ({_MEANINGS[title]})"
    shown = [
        "  "
        + " = ".join(f"{readable_name(check.entry(i).name)} ({check.describe(i)})" for i in check.members(each)[:3])
        for each in groups[:SHOWN]
    ]
    return [head, *shown]


def _places_line(check: Check) -> str:
    return ", ".join(f"{count:,} {place}" for place, count in check.totals().items())
