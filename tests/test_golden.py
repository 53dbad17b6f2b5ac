"""Losses of short seeded runs, written down once: a refactoring must give the same numbers.

``python tests/test_golden.py`` writes them anew, for a change that is meant to change them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semco.data.datasets import Dataset
from semco.experiment import train
from semco.recipes import configure
from semco.training.run_folder import RunFolder

GOLDEN = Path(__file__).parent / "golden_losses.json"
METHODS: dict[str, dict[str, str]] = {
    "supervised": {"name": "supervised"},
    "fixmatch": {"name": "fixmatch"},
    # The paper's rule, which retains much from the start: all five losses count.
    "semco": {"name": "semco", "scoring": "paper"},
}
# Other processors add in another order; five steps let that grow to no more than this.
TOLERANCE = 2e-3


def losses_of(method: str, folder: Path) -> list[dict[str, float]]:
    """Every loss term of five steps on noise."""
    import torch

    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (60, 3, 16, 16), generator=generator, dtype=torch.uint8)
    labels = torch.arange(60) % 3
    vectors = folder / "vectors.npy"
    np.save(vectors, np.array([[1, 0.2, 0], [1, -0.2, 0], [0, 0, 1]], dtype=np.float32))
    values: dict[str, Any] = {
        "data": {"labels_per_class": 5},
        "labels": {"source": "matrix", "path": str(vectors), "eps": 0.2},
        "model": {"backbone": "wrn-10-1"},
        "method": METHODS[method],
        "training": {"steps": 5, "batch_size": 8, "mu": 2, "log_every": 1, "device": "cpu"},
    }
    data = Dataset("noise", images, labels, ("dog", "cat", "ship"))
    train(configure(options=values), folder / "run", dataset=data)
    lines = RunFolder(folder / "run").metrics()
    return [{name: line[name] for name in line if name.startswith("loss")} for line in lines]


@pytest.mark.parametrize("method", METHODS)
def test_the_losses_are_what_they_were(method: str, tmp_path: Path) -> None:
    expected = json.loads(GOLDEN.read_text())[method]
    measured = losses_of(method, tmp_path)
    assert len(measured) == len(expected) == 5
    for mine, golden in zip(measured, expected, strict=True):
        assert mine == pytest.approx(golden, rel=TOLERANCE, abs=TOLERANCE)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        fresh = {}
        for name in METHODS:
            (Path(scratch) / name).mkdir()
            fresh[name] = losses_of(name, Path(scratch) / name)
        GOLDEN.write_text(json.dumps(fresh, indent=1) + "\n")
        sys.stdout.write(f"wrote {GOLDEN}\n")
