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

from semco.data.inputs import images_at_a_time
from semco.errors import UserError, brief
from semco.evaluation.model_check import class_problem
from semco.evaluation.probabilities import Head, finite_array
from semco.files import open_regular
from semco.predict.engine import About, Scores
from semco.predict.onnx.trial import PHOTOS, SHAPE, trial_photos, try_model

# The outputs of an exported model, and the key of its metadata.
CHOSEN, FAMILIARITY, METADATA = "probabilities", "familiarity", "semco"
EXTRA = "semco[onnx]"
AT_A_TIME = 4 * 224**2  # pixels that pass the graph together: the activations of more do not fit into a CPU's caches
ROUNDING = 0.01  # by how much probabilities may miss 0 and their sum 1, also those of a graph with quantised weights


def is_installed() -> bool:
    """Return whether ONNX Runtime is installed."""
    return find_spec("onnxruntime") is not None


class OnnxEngine:
    """Runs an ONNX file; its photos are (N, H, W, 3) uint8."""

    name = "onnx"

    def __init__(self, file: Path, head: Head | None = None) -> None:
        check_readable(file)
        outputs = try_model(file)  # the file may be untrusted
        self._file, self._session = file, open_session(file)
        self.about, self.weights = read_metadata(self._session, file)
        if head is not None and head != self.about.head:
            self.about = _with_head(self.about, head, file)
        self._of_head = {each: f"{CHOSEN}_{each}" for each in self.about.heads if f"{CHOSEN}_{each}" in outputs}
        self._wanted = [CHOSEN, *self._of_head.values()]
        expected = ("float32", (SHAPE[0], len(self.about.class_names)))
        if any(outputs.get(name) != expected for name in self._wanted) or not self._has(self.about.head):
            raise UserError(f"{file} does not predict the {len(self.about.class_names)} classes that it names.")
        if self.about.thresholds and outputs.get(FAMILIARITY) != ("float32", SHAPE[:1]):
            raise UserError(f"{file} has thresholds of a familiarity that it does not predict.")
        self._run(trial_photos())  # for what is checked there

    def _has(self, head: Head) -> bool:
        """Return whether there is an output for a head; a model of one head has one output for everything."""
        needed = {"one_hot", "semantic"} if head == "average" else {head}
        return needed <= set(self._of_head) if self._of_head else needed <= set(self.about.heads)

    def stream(self, batches: Iterable[Tensor]) -> Iterator[Scores]:
        return map(self._score, batches)

    def _score(self, images: Tensor) -> Scores:
        photos = images.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).contiguous().numpy()
        return self.score_photos(photos)

    def score_photos(self, photos: NDArray[np.uint8]) -> Scores:
        """Return the scores of photos (N, H, W, 3) of any size, which the graph makes square."""
        found, familiarity = self._run(photos)
        by_head: dict[str, NDArray[np.float32]] = {head: found[output] for head, output in self._of_head.items()}
        if not by_head:  # the model has one head
            return Scores(found[CHOSEN], dict.fromkeys(self.about.heads, found[CHOSEN]), familiarity)
        if self.about.head == "average":
            mean = ((by_head["one_hot"] + by_head["semantic"]) / 2).astype(np.float32)
            return Scores(mean, by_head, familiarity)
        return Scores(by_head[self.about.head], by_head, familiarity)

    def _run(self, photos: NDArray[np.uint8]) -> tuple[dict[str, NDArray[np.float32]], NDArray[np.float32] | None]:
        """Return the probabilities by output, and the familiarity if the model has thresholds of it."""
        more = [FAMILIARITY] if self.about.thresholds else []
        step = images_at_a_time(len(photos), (3, *photos.shape[1:3]), AT_A_TIME)
        parts = [photos[start : start + step] for start in range(0, max(1, len(photos)), step)]
        try:
            each = [self._session.run([*self._wanted, *more], {PHOTOS: part}) for part in parts]
        except Exception as error:  # ONNX Runtime raises errors of its own, whose base is Exception
            raise UserError(f"{self._file} cannot predict {len(photos)} photos ({brief(str(error))}).") from None
        arrays = [np.concatenate(outputs) for outputs in zip(*each, strict=True)]
        familiarity = _finite(arrays.pop()) if more else None
        shape = (len(photos), len(self.about.class_names))
        if familiarity is not None and familiarity.shape != shape[:1]:
            raise UserError(f"{self._file} does not predict one familiarity for each of {shape[0]} photos.")
        if any(array.shape != shape for array in arrays):
            raise UserError(f"{self._file} does not predict {shape[1]} classes for each of {shape[0]} photos.")
        found = dict(zip(self._wanted, map(_finite, arrays), strict=True))
        for name, values in found.items():
            if np.any(values < -ROUNDING) or np.any(np.abs(values.sum(axis=1, dtype=np.float64) - 1) > ROUNDING):
                raise UserError(f"{self._file} predicts numbers that are not probabilities (output {name!r}).")
        return found, familiarity


def _finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return finite_array(torch.from_numpy(values))


def check_readable(file: Path) -> None:
    """Raise a `UserError` if ONNX Runtime is not installed, or the file is missing or not regular."""
    if not is_installed():
        raise UserError(f"{file} needs ONNX Runtime: pip install '{EXTRA}'.")
    open_regular(file).close()


def open_session(file: Path) -> Any:
    """Return the session of an ONNX file on the CPU; the file has been tried before."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def read_metadata(session: Any, file: Path) -> tuple[About, str]:
    """Return the description in an exported model, and the checksum of the weights that it was made from."""
    metadata = session.get_modelmeta().custom_metadata_map
    try:
        values = json.loads(metadata[METADATA])
        weights = str(values.pop("weights"))
        about = TypeAdapter(About).validate_python(values)
    except (KeyError, TypeError, ValueError, ValidationError, AttributeError, RecursionError):
        raise UserError(f"{file} was not written by 'semco export': its metadata name no classes.") from None
    problem = class_problem(about.class_names, about.group_ids)
    if problem is not None:
        raise UserError(f"{file} is damaged: {problem}.")
    return about, weights


def _with_head(about: About, head: Head, file: Path) -> About:
    if head != "one_hot" and "semantic" not in about.heads:
        raise UserError(f"{file} has only the one-hot head; head {head!r} needs a model with a semantic head.")
    return replace(about, head=head)
