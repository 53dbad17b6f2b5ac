"""Print the largest size of all tensors that are alive at one time in a training step, in several ways of computing it.

Unlike the peak memory of a process (`python -m benchmarks step`) it does not depend on the processor: the scratch
memory of operators does not count. So bfloat16 can be compared on a CPU without instructions for it, where convolutions
take a detour through large scratch tensors.

    python scripts/measure_tensors.py --batch-size 16
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.step import AUTHORS, BFLOAT16, EAGER, FULL, make_variants
from benchmarks.synthetic import Setting, build_trainer
from semco.training.observer import MetricsLine, NullObserver

STEPS = 2  # momenta exist after the first step


class LiveTensors(TorchDispatchMode):
    """Records the most bytes that the tensors alive after an operator take together; ``peak`` is the result."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        outputs = func(*args, **(kwargs or {}))
        self._storages = {key: each for key, each in self._storages.items() if not each[0].expired()}
        for tensor in tree_leaves((args, kwargs, outputs)):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                self._storages.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))
        self.peak = max(self.peak, sum(size for _, size in self._storages.values()))
        return outputs


class EndOfSteps(Exception):  # noqa: N818 (not an error)
    pass


class StepCounter(NullObserver):
    """Ends the run after `STEPS` steps."""

    def __init__(self) -> None:
        self._steps = 0

    def on_line(self, line: MetricsLine) -> None:  # noqa: ARG002
        self._steps += 1
        if self._steps == STEPS:
            raise EndOfSteps


def measure(setting: Setting) -> int:
    """Return the bytes of the tensors of a step."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(setting, Path(folder) / "run", StepCounter())
        with LiveTensors() as tensors:
            try:
                trainer.run()
            except EndOfSteps:
                return tensors.peak
    raise AssertionError("the run ended by itself")


def main(batch_size: int) -> None:
    variants = make_variants(FULL, compiled=False, bfloat16=True)
    authors = 0
    for name in (AUTHORS, EAGER, BFLOAT16):
        found = measure(replace(variants[name], batch_size=batch_size))
        authors = authors or found
        print(f"{name}: {found / 2**20:,.0f} MiB, {found / authors:.2f} of the authors' way", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=FULL.batch_size, help="labelled images per step")
    torch.set_num_threads(2)
    main(parser.parse_args().batch_size)
