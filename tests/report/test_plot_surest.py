"""The curves of docs/surest-*.png on images counted by hand."""

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


def test_right_among_the_surest_by_hand(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cat and dog are a group, ship is alone: the surest image shows a ship, and does not count."""
    (tmp_path / "labels.json").write_text(json.dumps({"groups": [0, 0, 1]}))
    table = {
        "truth": [2, 0, 1, 0, 1],
        "label_one_hot": [2, 0, 0, 2, 1],
        "confidence_one_hot": [0.99, 0.5, 0.9, 0.7, 0.6],
    }
    pq.write_table(pa.table(table), tmp_path / "pseudo_labels.parquet")
    monkeypatch.setattr(script, "PARTS", np.array([0.25, 0.5, 0.75, 1.0]))
    # Surest first: a dog called a cat, a cat called a ship, a dog, a cat.
    expected = [[0, 0, 1 / 3, 2 / 4], [1, 1 / 2, 2 / 3, 3 / 4]]
    assert script.right_among_surest(tmp_path, "one_hot") == pytest.approx(np.array(expected))
    assert script.right_among_surest(tmp_path, "semantic") is None
