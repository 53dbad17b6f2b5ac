"""Export the model of a finished run, and check what was written against torch on real images.

Shapes: N images, H and W pixels, K classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from semco.data.datasets import Dataset, ProgressCallback
from semco.data.sources import load
from semco.errors import UserError
from semco.evaluation.model_file import SavedModel, load_model
from semco.evaluation.probabilities import Head
from semco.export.card import card_of, write_card
from semco.export.formats import FORMATS, Format, FormatName, format_of, photos_of
from semco.export.onnx_graph import OPSET
from semco.export.program import Program
from semco.files import atomic_folder, atomic_path, check_new, remove_leftover_files
from semco.models import set_precision
from semco.predict.engine import TorchEngine, find_model_folder
from semco.predict.predictor import EXPORTED
from semco.run.folder import RunFolder

# The largest difference of a probability between torch and the exported model that is accepted.
MOST_DIFFERENCE = 1e-4
CHECKED = 1000  # images on which an export is checked


@dataclass(frozen=True)
class Export:
    """What was written, and how it compares with torch."""

    file: Path
    """The file, or the folder."""
    card: Path
    size: int
    """Bytes of what was written, without the card."""
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


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Report nothing."""


def export_run(
    run: Path,
    to: Path | None = None,
    head: Head | None = None,
    top: int = 5,
    report: ProgressCallback = no_progress,
    format_name: FormatName | None = None,
    *,
    force: bool = False,
) -> Export:
    """Write the model of a run in a format, by default in that of the file's ending, with a model card.

    A file ``to`` that exists is overwritten only with ``force``. The file in the run's own folder always is, because it
    is made from the run. A model whose probabilities differ from torch's by more than 1e-4 on images of the run's data
    is refused. ``report`` is called with the part of the work, how much of it is done and how much there is.
    """
    written_as = FORMATS[format_name or format_of(to)]
    target = to or run / EXPORTED.parent / written_as.place
    written_as.check(target)
    if to is not None and not written_as.is_folder:
        check_new(to, force)
    folder = RunFolder.open(run)
    model = load_model(find_model_folder(run))
    set_precision(model.network, "float32")  # files of other formats are computed in float32
    # OpenVINO's converter and the code of a transformers folder know no branches.
    program = Program(model, head, branches=written_as.is_onnx).eval()
    images, labels = real_images(load(folder.config().data, report), CHECKED)
    if not written_as.is_folder:
        remove_leftover_files(target)
    report(f"writing {target}", 0, 1)
    with atomic_folder(target) if written_as.is_folder else atomic_path(target) as temporary:
        written_as.write(temporary, program, model, top)
        report(f"writing {target}", 1, 1)
        result = _compare(written_as, target, temporary, model, head, images, labels, report)
        if result.difference > MOST_DIFFERENCE:
            raise UserError(
                f"{target} is not written: its probabilities differ from torch by up to {result.difference:.1e} on "
                f"{result.images} images, more than {MOST_DIFFERENCE:.0e}."
            )
        if written_as.is_folder:
            write_card(folder, target, temporary / written_as.card, program.about, written_as.card_fields)
    if not written_as.is_folder:
        write_card(folder, target, result.card, program.about)
    return result


def real_images(dataset: Dataset, most: int) -> tuple[Tensor, Tensor | None]:
    """Return images (N, C, H, W) to check an export on: test images with class ids, else training images without."""
    if dataset.test_images is not None and dataset.test_labels is not None:
        return dataset.test_images[:most], dataset.test_labels[:most]
    return dataset.train_images[:most], None


def _compare(
    written_as: Format,
    target: Path,
    written: Path,
    model: SavedModel,
    head: Head | None,
    images: Tensor,
    labels: Tensor | None,
    report: ProgressCallback,
) -> Export:
    """Compare what was written with torch on images (N, C, H, W)."""
    engine = TorchEngine(model, head)
    batches = images.split(engine.about.batch_size)

    def counted(answers_of: str) -> Iterator[Tensor]:
        for done, batch in enumerate(batches):
            report(answers_of, done, len(batches))
            yield batch
        report(answers_of, len(batches), len(batches))

    expected = np.concatenate([scores.chosen for scores in engine.stream(counted("answers of torch"))])
    found = np.concatenate(written_as.probabilities(written, map(photos_of, counted("answers of the export"))))
    same = expected.argmax(axis=1) == found.argmax(axis=1)

    def accuracy(scores: NDArray[np.float32]) -> float | None:
        return None if labels is None else float((scores.argmax(axis=1) == labels.numpy()).mean())

    return Export(
        file=target,
        card=target / written_as.card if written_as.is_folder else card_of(target),
        size=sum(each.stat().st_size for each in _files(written)),
        opset=OPSET if written_as.is_onnx else None,
        images=len(images),
        difference=float(np.abs(expected - found).max()),
        agreement=float(same.mean()),
        accuracy=accuracy(found),
        torch_accuracy=accuracy(expected),
    )


def _files(written: Path) -> Iterable[Path]:
    return [written] if written.is_file() else (path for path in written.rglob("*") if path.is_file())
