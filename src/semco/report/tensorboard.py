"""Event files for TensorBoard: metrics while a run trains, then its most confident mistakes and its label map."""

from __future__ import annotations

import base64
import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from semco.errors import UserError
from semco.evaluation.model_file import load_model
from semco.run.folder import RunFolder
from semco.training.observer import MetricsLine, NullObserver

EXTRA = "semco[tensorboard]"
FOLDER = "tensorboard"


class TensorBoard(NullObserver):
    """An observer that writes every metric as a scalar into ``tensorboard/`` of the run folder.

    Call `finish` when the run is done. The event files are made at the first metrics, because a run starts in an empty
    folder.
    """

    def __init__(self, run: Path) -> None:
        if find_spec("tensorboard") is None:
            raise UserError(f"TensorBoard is not installed: pip install '{EXTRA}'.")
        self._run = run
        self._made: Any = None

    @property
    def _writer(self) -> Any:
        if self._made is None:
            from torch.utils.tensorboard import SummaryWriter

            self._made = SummaryWriter(str(self._run / FOLDER))
        return self._made

    def on_line(self, line: MetricsLine) -> None:
        step = int(line["step"] or 0)
        for name, value in line.items():
            if name != "step" and isinstance(value, int | float):
                self._writer.add_scalar(name, value, step)

    def on_message(self, text: str) -> None:
        if self._made is not None:
            self._made.add_text("messages", text)

    def finish(self) -> None:
        """Add the images with the most confident mistakes and the groups of classes, and close the files."""
        folder = RunFolder.open(self._run)
        self._add_mistakes(folder)
        self._add_groups(folder)
        self._writer.close()

    def _add_mistakes(self, folder: RunFolder) -> None:
        if not folder.evaluation_file.is_file():
            return
        values = folder.read_json(folder.evaluation_file)
        names = values["class_names"]
        mistakes = [each for each in values["samples"] if each["kind"] == "mistake"]
        for number, each in enumerate(mistakes):
            pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(each["image"]))).convert("RGB"))
            title = f"mistakes/{number}: {names[each['truth']]} taken for {names[each['label']]}"
            self._writer.add_image(title, pixels, dataformats="HWC")

    def _add_groups(self, folder: RunFolder) -> None:
        """Add the label vectors for the projector, which shows them as a map; a class is called by group and name."""
        model = load_model(folder.model)
        described = model.description
        rows = [[name, str(group)] for name, group in zip(described.class_names, described.groups, strict=True)]
        self._writer.add_embedding(model.label_vectors, rows, metadata_header=["class", "group"], tag="label map")
