"""Export the model of a finished run, and check what was written against torch on real images.

Shapes: N images, H and W pixels, K classes.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.datasets import Dataset, ProgressCallback
from semco.data.sources import load
from semco.errors import UserError
from semco.evaluation.model_file import WEIGHTS, SavedModel, load_model
from semco.evaluation.probabilities import Head
from semco.export.card import card_of, write_card
from semco.export.onnx_graph import OPSET, add_names, describe, to_onnx, trace, write_torch
from semco.export.program import Program
from semco.files import atomic_path
from semco.models import set_precision
from semco.predict.engine import TorchEngine, find_model_folder
from semco.predict.onnx.engine import OnnxEngine
from semco.predict.predictor import EXPORTED
from semco.run.folder import RunFolder

# The largest difference of a probability between torch and the exported model that is accepted.
MOST_DIFFERENCE = 1e-4
CHECKED = 1000  # images on which an export is checked


@dataclass(frozen=True)
class Export:
    """What was written, and how it compares with torch."""

    file: Path
    card: Path
    opset: int | None
    images: int
    """Number of images that were compared."""
    difference: float
    """Largest difference of a probability."""
    agreement: float
    """Fraction of the images with the same label."""
    accuracy: float | None = None
    """Accuracy of the exported model on those of the images that are test images; None if there are none."""
    torch_accuracy: float | None = None


def export_run(
    run: Path,
    to: Path | None = None,
    head: Head | None = None,
    top: int = 5,
    report: ProgressCallback | None = None,
) -> Export:
    """Write the model of a run as ``.onnx`` or, for `torch.export.load`, as ``.pt2``, with a model card beside it.

    A file that differs from torch by more than 1e-4 on images of the run's data is refused.
    """
    file = to or run / EXPORTED
    if file.suffix not in (".onnx", ".pt2"):
        raise UserError(f"models are exported as .onnx or .pt2 (torch.export), not as {file.name!r}.")
    folder = RunFolder.open(run)
    model = load_model(find_model_folder(run))
    set_precision(model.network, "float32")  # files of other formats are computed in float32
    program = Program(model, head).eval()
    images, labels = real_images(load(folder.config().data, report), CHECKED)
    with atomic_path(file) as temporary:
        if file.suffix == ".pt2":
            write_torch(temporary, trace(program), program.about)
        else:
            _write_onnx(temporary, program, model, top)
        result = _compare(file, temporary, model, head, images, labels)
        if result.difference > MOST_DIFFERENCE:
            raise UserError(
                f"{file} is not written: its probabilities differ from torch by up to {result.difference:.1e} on "
                f"{result.images} images, more than {MOST_DIFFERENCE:.0e}."
            )
    write_card(folder, file, result.card, program.about)
    return result


def real_images(dataset: Dataset, most: int) -> tuple[Tensor, Tensor | None]:
    """Return images (N, C, H, W) to check an export on, with class ids: test images, else training images without."""
    if dataset.test_images is not None and dataset.test_labels is not None:
        return dataset.test_images[:most], dataset.test_labels[:most]
    return dataset.train_images[:most], None


def as_photos(images: Tensor) -> NDArray[np.uint8]:
    """Return images (N, C, H, W) as photos (N, H, W, 3)."""
    photos: NDArray[np.uint8] = images.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).contiguous().numpy()
    return photos


def _write_onnx(file: Path, program: Program, model: SavedModel, top: int) -> None:
    graph = to_onnx(program)
    add_names(graph, program.about, top)
    described = model.description
    describe(graph, program.about, described.checksums.get(WEIGHTS, ""), {"weights_from": described.provenance})
    file.write_bytes(graph.SerializeToString())


def _compare(
    file: Path, written: Path, model: SavedModel, head: Head | None, images: Tensor, labels: Tensor | None
) -> Export:
    """Compare a written file with torch on images (N, C, H, W)."""
    engine = TorchEngine(model, head)
    batches = images.split(engine.about.batch_size)
    expected = np.concatenate([scores.chosen for scores in engine.stream(batches)])
    found = np.concatenate(_outputs(written, file.suffix, batches, head))
    same = expected.argmax(axis=1) == found.argmax(axis=1)

    def accuracy(scores: NDArray[np.float32]) -> float | None:
        return None if labels is None else float((scores.argmax(axis=1) == labels.numpy()).mean())

    return Export(
        file=file,
        card=card_of(file),
        opset=OPSET if file.suffix == ".onnx" else None,
        images=len(images),
        difference=float(np.abs(expected - found).max()),
        agreement=float(same.mean()),
        accuracy=accuracy(found),
        torch_accuracy=accuracy(expected),
    )


def _outputs(written: Path, suffix: str, batches: tuple[Tensor, ...], head: Head | None) -> list[NDArray[np.float32]]:
    if suffix == ".onnx":
        return [scores.chosen for scores in OnnxEngine(written, head).stream(batches)]
    program = torch.export.load(io.BytesIO(written.read_bytes())).module()
    with torch.inference_mode():
        return [program(torch.from_numpy(as_photos(batch)))[0].numpy() for batch in batches]
