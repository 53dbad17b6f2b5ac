"""The curves of docs/lab/surest-*.png, compared with images counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import load_script


@pytest.fixture
def script() -> ModuleType:
    return load_script("plot_surest")


def test_accuracy_by_confidence_by_hand(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cat and dog are a group and ship is not: the most confident image shows a ship and does not count.

    Neither does an image of unknown class, although -1 is also the position of the last class, horse, in a group.
    """
    (tmp_path / "labels.json").write_text(json.dumps({"groups": [0, 0, 1, 0]}))
    table = {
        "truth": [2, 0, 1, 0, 1, -1],
        "label_one_hot": [2, 0, 0, 2, 1, 0],
        "confidence_one_hot": [0.99, 0.5, 0.9, 0.7, 0.6, 0.8],
    }
    pq.write_table(pa.table(table), tmp_path / "pseudo_labels.parquet")
    monkeypatch.setattr(script, "FRACTIONS", np.array([0.25, 0.5, 0.75, 1.0]))
    # Most confident first: a dog predicted as cat, a cat predicted as ship, a dog, a cat.
    expected = [[0, 0, 1 / 3, 2 / 4], [1, 1 / 2, 2 / 3, 3 / 4]]
    assert script.accuracy_by_confidence(tmp_path, "one_hot") == pytest.approx(np.array(expected))
    assert script.accuracy_by_confidence(tmp_path, "semantic") is None
