"""Runs an exported model (``semco export``) with ONNX Runtime.

Shapes: N images, C channels, H and W pixels, K classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from semco.errors import UserError
from semco.evaluation.engine import About, Scores
from semco.evaluation.probabilities import Head, finite_array
from semco.files import open_regular

# The input of an exported model, its outputs, and the key of its metadata.
PHOTOS, CHOSEN, METADATA = "photos", "probabilities", "semco"
EXTRA = "semco[onnx]"


def is_installed() -> bool:
    """Return whether ONNX Runtime is installed."""
    return find_spec("onnxruntime") is not None


class OnnxEngine:
    """Runs an ONNX file; its photos are (N, H, W, 3) uint8."""

    name = "onnx"

    def __init__(self, file: Path, head: Head | None = None) -> None:
        self._session = open_session(file)
        self.about, self.weights = read_metadata(self._session, file)
        if head is not None and head != self.about.head:
            self.about = _with_head(self.about, head, file)
        outputs = {output.name for output in self._session.get_outputs()}
        self._of_head = {each: f"{CHOSEN}_{each}" for each in self.about.heads if f"{CHOSEN}_{each}" in outputs}

    def stream(self, batches: Iterable[Tensor]) -> Iterator[Scores]:
        return map(self._score, batches)

    def _score(self, images: Tensor) -> Scores:
        photos = images.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).contiguous().numpy()
        return self.score_photos(photos)

    def score_photos(self, photos: NDArray[np.uint8]) -> Scores:
        """Return the scores of photos (N, H, W, 3) of any size, which the graph makes square."""
        wanted = list(dict.fromkeys([CHOSEN, *self._of_head.values()]))
        found = dict(zip(wanted, map(_finite, self._session.run(wanted, {PHOTOS: photos})), strict=True))
        by_head: dict[str, NDArray[np.float32]] = {head: found[output] for head, output in self._of_head.items()}
        if not by_head:  # the model has one head
            return Scores(found[CHOSEN], dict.fromkeys(self.about.heads, found[CHOSEN]))
        if self.about.head == "average":
            return Scores(((by_head["one_hot"] + by_head["semantic"]) / 2).astype(np.float32), by_head)
        return Scores(by_head[self.about.head], by_head)


def _finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return finite_array(torch.from_numpy(values))


def open_session(file: Path) -> Any:
    """Return the session of an ONNX file on the CPU; a file that is not one is a `UserError`."""
    if not is_installed():
        raise UserError(f"{file} needs ONNX Runtime: pip install '{EXTRA}'.")
    import onnxruntime

    open_regular(file).close()  # raises for a file that is missing or not regular
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises errors of its own, whose base is Exception
        reason = str(error).splitlines()[0]
        raise UserError(f"{file} is not a model that ONNX Runtime reads ({reason}).") from None


def read_metadata(session: Any, file: Path) -> tuple[About, str]:
    """Return what an exported model says of itself, and the checksum of the weights that it was made of."""
    metadata = session.get_modelmeta().custom_metadata_map
    try:
        values = json.loads(metadata[METADATA])
        weights = str(values.pop("weights"))
        return TypeAdapter(About).validate_python(values), weights
    except (KeyError, ValueError, ValidationError, AttributeError):
        raise UserError(f"{file} was not written by 'semco export': its metadata name no classes.") from None


def _with_head(about: About, head: Head, file: Path) -> About:
    if head != "one_hot" and "semantic" not in about.heads:
        raise UserError(f"{file} has only the one-hot head; head {head!r} needs a model with a semantic head.")
    return replace(about, head=head)
