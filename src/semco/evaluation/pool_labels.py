"""The final model's opinion of every unlabelled image, as a table for other tools.

Shapes: U unlabelled images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from semco.files import atomic_path
from semco.pseudo_labels.semantic import SemanticPseudoLabels
from semco.types import PseudoLabels


def write_pseudo_labels(
    file: Path,
    index: NDArray[np.integer],
    truth: NDArray[np.integer],
    pseudo_labels: Mapping[str, PseudoLabels],
    paths: Sequence[str] | None = None,
) -> None:
    """A Parquet table with a row an image: position, path, truth (-1 unknown) and what each head says.

    ``index`` (U,) counts in the training set; ``pseudo_labels`` are by head, ``one_hot`` or ``semantic``.
    """
    columns: dict[str, Any] = {
        "index": pa.array(index, pa.int64()),
        "path": pa.array(paths, pa.string()) if paths is not None else pa.nulls(len(index), pa.string()),
        "truth": pa.array(truth, pa.int64()),
    }
    for head, labels in pseudo_labels.items():
        columns |= _head_columns(head, labels)
    with atomic_path(file) as temporary:
        pq.write_table(pa.table(columns), temporary)


def _head_columns(head: str, labels: PseudoLabels) -> dict[str, Any]:
    columns = {
        f"label_{head}": pa.array(labels.class_ids.numpy(force=True), pa.int64()),
        f"confidence_{head}": pa.array(labels.confidence.float().numpy(force=True), pa.float32()),
        f"retained_{head}": pa.array(labels.weights.numpy(force=True) > 0, pa.bool_()),
    }
    if isinstance(labels, SemanticPseudoLabels):
        columns[f"group_{head}"] = pa.array(labels.group_ids.numpy(force=True), pa.int64())
    return columns
