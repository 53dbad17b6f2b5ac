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
import torch

from semco.config import configure
from semco.data.datasets import Dataset
from semco.experiment import train
from semco.methods import Method
from semco.run.folder import RunFolder

GOLDEN = Path(__file__).parent / "golden_losses.json"
# Thresholds that a network of five steps reaches, so that every loss term counts.
REACHABLE: dict[str, dict[str, Any]] = {
    "cowmask": {"tau": 0.4},
    "fixmatch": {"tau": 0.4},
    "flexmatch": {"tau": 0.4},
    "simmatch": {"tau": 0.4, "warm_up": 0.0},
    "uda": {"tau": 0.4, "annealing": "none"},
    "featmatch": {"confidence": 0.4},
    "vat": {"lambda_entropy": 1.0},
    # With its own graph, which of these images of noise are neighbours would depend on the rounding of the processor.
    "label_propagation": {"neighbours": 100, "gamma": 50.0, "alpha": 0.5},
    "semco": {"tau_o": 0.4},
    "semco_reference": {"tau_e": 0.1, "tau_o": 0.4},
}
# All methods except those that take no steps and so have no losses (linear_probe).
CASES: dict[str, dict[str, Any]] = {
    name: {"name": name, **REACHABLE.get(name, {})}
    for name, method in sorted(Method.registry.items())
    if method.takes_steps
}
# Other processors add in another order; five steps let that grow to no more than this.
TOLERANCE = 2e-3


# With one large group among three classes all strong views choose the same group, which is fair by definition.
SILENT = {"semco_plus": {"loss/fairness_semantic"}}


def losses_of(method: str, folder: Path) -> list[dict[str, float]]:
    """Every loss term of five steps on noise."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (60, 3, 16, 16), generator=generator, dtype=torch.uint8)
    labels = torch.arange(60) % 3
    vectors = folder / "vectors.npy"
    np.save(vectors, np.array([[1, 0.2, 0], [1, -0.2, 0], [0, 0, 1]], dtype=np.float32))
    values: dict[str, Any] = {
        "data": {"labels_per_class": 5},
        "labels": {"source": "matrix", "path": str(vectors), "eps": 0.2},
        "model": {"backbone": "wrn-10-1"},
        "method": CASES[method],
        "training": {"steps": 5, "batch_size": 8, "mu": 2, "log_every": 1, "device": "cpu"},
    }
    data = Dataset("noise", images, labels, ("dog", "cat", "ship"))
    train(configure(options=values), folder / "run", dataset=data)
    lines = RunFolder(folder / "run").metrics()
    return [{name: line[name] for name in line if name.startswith("loss")} for line in lines]


@pytest.mark.usefixtures("no_page")  # tests/experiment writes one for every method
@pytest.mark.parametrize("method", CASES)
def test_the_losses_are_what_they_were(method: str, tmp_path: Path) -> None:
    expected = json.loads(GOLDEN.read_text())[method]
    measured = losses_of(method, tmp_path)
    assert len(measured) == len(expected) == 5
    for mine, golden in zip(measured, expected, strict=True):
        assert mine == pytest.approx(golden, rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.parametrize("method", CASES)
def test_every_term_counts(method: str) -> None:
    """A term that is always 0 would be the same whatever a refactoring broke."""
    lines = json.loads(GOLDEN.read_text())[method]
    silent = {name for name in lines[0] if not any(line[name] for line in lines)}
    assert silent == SILENT.get(method, set())


if __name__ == "__main__":
    torch.set_num_threads(1)  # as in the tests: more threads add in another order
    with tempfile.TemporaryDirectory() as scratch:
        fresh = {}
        for name in CASES:
            (Path(scratch) / name).mkdir()
            fresh[name] = losses_of(name, Path(scratch) / name)
        GOLDEN.write_text(json.dumps(fresh, indent=1) + "\n")
        sys.stdout.write(f"wrote {GOLDEN}\n")
