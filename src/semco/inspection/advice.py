"""Suggestions for a run: image size, backbone, and how many labels are still worth giving. Each rule is one sentence.

Shapes: N images, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from semco.config import ModelConfig
from semco.data.decode import LARGEST_DEFAULT
from semco.files import readable_name
from semco.inspection.facts import ImageFacts
from semco.models import has_weights

# Images with a shorter side below this are icons or small crops, for which ImageNet weights help little.
SMALL_SIDE = 64
PHOTO_BACKBONE, PHOTO_SIZE, SMALL_BACKBONE = "efficientnet-lite0", 224, "wrn-28-2"
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
