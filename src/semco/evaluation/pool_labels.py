"""The final pseudo-labels of the pool, and a table of them for other tools.

Shapes: U unlabelled images, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.data.split import LABELLED
from semco.files import atomic_path, encode_text, readable_name
from semco.types import Outputs, PseudoLabels

# Numbers per (U, K) tensor while pseudo-labels are made: a million images of a thousand classes would take gigabytes.
MOST_SCORES = 20_000_000


@torch.no_grad()
def label_pool(
    pseudo_labels: Callable[[Outputs, Tensor], Mapping[str, PseudoLabels]], outputs: Outputs
) -> dict[str, PseudoLabels]:
    """Return the pseudo-labels of a whole pool by head, from a method's own function, some images at a time."""
    size, classes = outputs.logits.shape
    index = torch.arange(size, device=outputs.logits.device)
    parts = [pseudo_labels(outputs.rows(rows), rows) for rows in index.split(max(1, MOST_SCORES // classes))]
    return {head: _join([part[head] for part in parts]) for head in parts[0]}


def _join(parts: Sequence[PseudoLabels]) -> PseudoLabels:
    columns = [[getattr(part, name) for part in parts] for name in ("class_ids", "weights", "confidence", "group_ids")]
    return PseudoLabels(*(None if column[0] is None else torch.cat(column) for column in columns))  # type: ignore[arg-type]


def write_pseudo_labels(
    file: Path,
    index: NDArray[np.integer],
    truth: NDArray[np.integer],
    pseudo_labels: Mapping[str, PseudoLabels],
    paths: Sequence[str] | None = None,
    class_names: Sequence[str] = (),
    suggested: NDArray[np.int64] | None = None,
) -> None:
    """Write a Parquet table with a row per image without label: position, path, true class or -1, and pseudo-labels.

    ``index`` (U,) are positions in the training set, ``truth`` (U,) is as `semco.data.split.hidden_truth` returns it;
    ``pseudo_labels`` are by head, ``one_hot`` or ``semantic``. Images whose label the run was trained on are left out,
    although the pool may contain them. With ``class_names``, every pseudo-label is also there by name.
    ``suggested`` (U,) are the places of the images that are most worth a label, 1 first; 0 becomes a missing value.
    """
    columns: dict[str, Any] = {
        "index": pa.array(index, pa.int64()),
        **_path_columns(paths, len(index)),
        "truth": pa.array(truth, pa.int64()),
    }
    for head, pseudo in pseudo_labels.items():
        columns |= _head_columns(head, pseudo)
        if class_names:
            columns[f"name_{head}"] = _names(pseudo, class_names)
    if suggested is not None:
        columns["suggested"] = pa.array(suggested, pa.int64(), mask=suggested == 0)
    with atomic_path(file) as temporary:
        pq.write_table(pa.table(columns).filter(pa.array(truth != LABELLED)), temporary)


def _path_columns(paths: Sequence[str] | None, count: int) -> dict[str, Any]:
    """Return the paths as text; if some are not UTF-8, also as the bytes of the file system."""
    if paths is None:
        return {"path": pa.nulls(count, pa.string())}
    shown = [readable_name(path) for path in paths]
    columns = {"path": pa.array(shown, pa.string())}
    if shown != list(paths):
        columns["path_bytes"] = pa.array([encode_text(path) for path in paths], pa.binary())
    return columns


def _names(pseudo: PseudoLabels, class_names: Sequence[str]) -> pa.DictionaryArray:
    """Return the names of pseudo-labels; the names themselves are stored once."""
    shown = pa.array([readable_name(name) for name in class_names], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(pseudo.class_ids.numpy(force=True), pa.int32()), shown)


def _head_columns(head: str, pseudo: PseudoLabels) -> dict[str, Any]:
    columns = {
        f"label_{head}": pa.array(pseudo.class_ids.numpy(force=True), pa.int64()),
        f"confidence_{head}": pa.array(pseudo.confidence.float().numpy(force=True), pa.float32()),
        f"retained_{head}": pa.array(pseudo.weights.numpy(force=True) > 0, pa.bool_()),
    }
    if pseudo.group_ids is not None:
        columns[f"group_{head}"] = pa.array(pseudo.group_ids.numpy(force=True), pa.int64())
    return columns
