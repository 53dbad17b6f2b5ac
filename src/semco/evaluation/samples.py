"""A few images with their predictions, small enough to be saved in a run folder.

Shapes: N images, C channels, H and W pixels, K classes.
"""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

Kind = Literal["random", "mistake", "sure", "unsure"]
Format = Literal["png", "jpeg"]
# Images up to this width are saved and shown with their exact pixels; larger ones are photos, saved as JPEG.
SMALL_IMAGE = 64
LARGEST_SIDE = 224
QUALITY = 85


@dataclass(frozen=True)
class Sample:
    """One image (a file in base64) with its true class (-1: unknown) and the ids of the two most probable classes."""

    image: str
    format: Format
    width: int
    truth: int
    label: int
    confidence: float
    runner_up: int
    kind: Kind

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def pick_samples(
    images: Tensor,
    probabilities: NDArray[np.floating],
    truth: NDArray[np.integer],
    random: int = 24,
    mistakes: int = 8,
    index: NDArray[np.integer] | None = None,
    mistakes_first: bool = False,
) -> list[Sample]:
    """Return random images, the same for every model, followed by the most confident mistakes.

    With ``mistakes_first`` the mistakes come before random ones of the other images, so that none is there twice.

    ``images`` are (N, C, H, W) uint8, ``probabilities`` (N, K), ``truth`` (N,), -1 if unknown. With ``index`` (N,),
    row i belongs to image ``index[i]``.
    """
    known = np.flatnonzero(truth >= 0)
    drawn = np.random.default_rng(0).permutation(known)
    wrong = known[probabilities[known].argmax(axis=1) != truth[known]]
    most_confident = wrong[np.argsort(-probabilities[wrong].max(axis=1), kind="stable")][:mistakes]
    kinds: list[tuple[Kind, NDArray[np.integer]]]
    if mistakes_first:
        kinds = [("mistake", most_confident), ("random", drawn[~np.isin(drawn, most_confident)][:random])]
    else:
        kinds = [("random", drawn[:random]), ("mistake", most_confident)]
    places = np.arange(len(truth)) if index is None else index
    return [
        _sample(images[places[i]], probabilities[i], int(truth[i]), kind)
        for kind, chosen in kinds
        for i in chosen.tolist()
    ]


def surest_and_least_sure(
    class_ids: NDArray[np.integer], confidence: NDArray[np.floating], most: int = 6
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return the positions of predictions (U,): the most confident one of each class, and the least confident ones.

    Both are at most ``most``, and no position is in both.
    """
    order = np.argsort(-confidence, kind="stable")
    _, first = np.unique(class_ids[order], return_index=True)
    surest = order[np.sort(first)[:most]]
    others = order[~np.isin(order, surest)]
    return surest, others[::-1][:most]


def unlabelled_samples(
    images: Tensor, index: NDArray[np.integer], probabilities: NDArray[np.floating], kind: Kind
) -> list[Sample]:
    """Return samples without a true class of the images (N, C, H, W) at ``index`` (n,), with probabilities (n, K)."""
    return [_sample(images[i], scores, -1, kind) for i, scores in zip(index.tolist(), probabilities, strict=True)]


def _sample(image: Tensor, scores: NDArray[np.floating], truth: int, kind: Kind) -> Sample:
    best, second = np.argsort(-scores, kind="stable")[:2].tolist()
    file_format = format_of(image)
    encoded = encode_image(image, file_format)
    return Sample(encoded, file_format, image.shape[-1], truth, best, float(scores[best]), second, kind)


def format_of(image: Tensor) -> Format:
    """Return the format in which an image (C, H, W) is saved."""
    return "png" if image.shape[-1] <= SMALL_IMAGE else "jpeg"


def picture_url(image: Tensor) -> str:
    """Return an image (C, H, W) uint8 as a data URL."""
    file_format = format_of(image)
    return f"data:image/{file_format};base64,{encode_image(image, file_format)}"


def encode_image(image: Tensor, file_format: Format) -> str:
    """Return an image (C, H, W) uint8 as a file with sides of at most 224 pixels, in base64."""
    pixels = image.permute(1, 2, 0).numpy(force=True)
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    buffer = BytesIO()
    picture.save(buffer, file_format, optimize=True, quality=QUALITY)  # PNG has no quality and ignores it
    return base64.b64encode(buffer.getvalue()).decode("ascii")
