"""The tables of what pseudo-labelling did: ``classes.parquet`` and ``images.parquet`` of a run folder.

Shapes: N images of the pool, K classes, L log lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from semco.data.split import LABELLED
from semco.files import atomic_path
from semco.training.pool_statistics import COLUMNS, HEADS, ROWS, THOUSANDTHS, ClassHistory, ImageCounts

TOP_WRONG = 3  # wrong classes per image that are written


def write_class_counts(file: Path, history: ClassHistory) -> None:
    """Write one row per log line, head and true class (-1: unknown) with the counts since the line before.

    A head that retained nothing in the whole run is left out, and so is the ensemble of a single head.
    """
    tables = np.stack(history.tables) if history.tables else np.zeros((0, len(ROWS), 1, len(COLUMNS)), np.int64)
    lines, _, classes, _ = tables.shape
    heads = [h for h in range(len(HEADS)) if tables[:, h, :, 1].any()] or [0]
    heads += [len(HEADS)] if len(heads) == len(HEADS) else []
    chosen = tables[:, heads].reshape(-1, len(COLUMNS)) / THOUSANDTHS  # (L * heads * (K + 1), 5)
    class_ids = np.append(np.arange(classes - 1), -1)
    names = pa.array([ROWS[h] for h in heads]).dictionary_encode()
    columns: dict[str, Any] = {
        "step": np.repeat(np.asarray(history.steps, np.int64), len(heads) * classes),
        "head": names.take(pa.array(np.tile(np.repeat(np.arange(len(heads)), classes), lines))),
        "class_id": np.tile(class_ids.astype(np.int32), lines * len(heads)),
        **dict(zip(COLUMNS, chosen.T, strict=True)),
    }
    _write(file, columns)


def write_image_counts(file: Path, index: NDArray[np.integer], truth: NDArray[np.integer], counts: ImageCounts) -> None:
    """Write one row per unlabelled image: how often it was seen, retained by each head, and given which wrong class.

    ``index`` (N,) are positions in the training set; ``truth`` (N,) is -1 where the class is not known.
    """
    kept = np.flatnonzero(truth != LABELLED)
    wrong, number = counts.top(TOP_WRONG)
    columns: dict[str, Any] = {"index": index[kept], "truth": truth[kept], "seen": counts.seen[kept]}
    columns |= {f"retained_{head}": row[kept] for head, row in zip(HEADS, counts.retained, strict=True)}
    for k in range(TOP_WRONG):
        columns |= {f"wrong_{k + 1}": wrong[kept, k], f"wrong_{k + 1}_count": number[kept, k]}
    _write(file, columns)


def _write(file: Path, columns: dict[str, Any]) -> None:
    with atomic_path(file) as temporary:
        pq.write_table(pa.table(columns), temporary)
