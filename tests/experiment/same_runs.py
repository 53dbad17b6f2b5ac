"""Runs that crash, and comparison of run folders whose runs should have gone the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file

from semco.run.folder import RunFolder
from semco.training.observer import NullObserver


class StopAt(NullObserver):
    """Raises in the middle of a run, as a crash would."""

    def __init__(self, step: int) -> None:
        self.last = step

    def on_step(self, step: int) -> None:
        if step == self.last:
            raise RuntimeError("crash")


def lines_of(run: Path) -> list[dict[str, Any]]:
    """Metrics without the clock."""
    return [{k: v for k, v in line.items() if k != "seconds"} for line in RunFolder(run).metrics()]


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(run / "model" / "model.safetensors"))


def assert_same_run(one: Path, two: Path) -> None:
    assert lines_of(one) == lines_of(two)
    first, second = weights_of(one), weights_of(two)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    results = [RunFolder(run).result().model_dump(exclude={"seconds", "run"}) for run in (one, two)]
    assert results[0] == results[1]
    for table in ("classes.parquet", "images.parquet"):
        files = [run / table for run in (one, two)]
        assert files[0].exists() == files[1].exists()
        assert not files[0].exists() or pq.read_table(files[0]).equals(pq.read_table(files[1])), table
