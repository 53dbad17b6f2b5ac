"""No step waits for the device: nothing in it is read by the host, and no shape depends on values.

On a GPU such an operation would stop the host until everything before it is computed. There is none here, so that the
operations are watched as they are dispatched on the CPU.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.step import QUICK
from benchmarks.synthetic import build_trainer
from semco.methods import FittedMethod, Method
from semco.training.loop import Trainer
from semco.training.observer import NullObserver
from semco.training.signals import StopRequest

# Operations whose result the host reads, or whose shape depends on values.
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2", "bincount"}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
READING = ("cpu", "numpy", "tolist", "item")
METHODS = sorted(name for name, method in Method.registry.items() if not issubclass(method, FittedMethod))
# Methods that cannot do without, each with the reason.
EXCEPTIONS: dict[str, str] = {}


class Watch(TorchDispatchMode):
    """Counts the operations of a block, and fails at one that would wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._drawn_on_host: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        is_on_host = name in WAITING and args[0].data_ptr() in {tensor.data_ptr() for tensor in self._drawn_on_host}
        assert is_on_host or name not in WAITING, f"{name} waits for the device"
        if name in INDEXING:
            indices = [index for index in args[1] if index is not None]
            assert all(index.dtype == torch.int64 for index in indices), "a mask as index waits for the device"
        self.counts[name] += 1
        result = func(*args, **(kwargs or {}))
        if name in (
            "randint",
            "random_",
        ):  # from the generator of the step, which is on the host (seeds of mixing weights)
            self._drawn_on_host.append(result)
        return result


def steps_of(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Take two steps of a method under watch; return the operations of the second."""
    trainer = build_trainer(replace(QUICK, method=name, classes=16), folder / "run", NullObserver())
    monkeypatch.setattr(Trainer, "_stop_if_diverged", lambda _: None)  # done on CPUs only, where it costs nothing
    batches = [trainer.batches.batch(step) for step in range(2)]
    trainer.network.train()
    for reading in READING:
        monkeypatch.setattr(Tensor, reading, _forbidden(reading))
    for batch, truth in batches:
        with Watch() as watch:
            trainer._train(batch, truth, StopRequest())
    return watch


def _forbidden(name: str) -> Any:
    def read(*_: object, **__: object) -> None:
        raise AssertionError(f".{name}() waits for the device")

    return read


@pytest.mark.parametrize("name", METHODS)
def test_a_step_does_not_wait(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in EXCEPTIONS:
        with pytest.raises(AssertionError, match="waits for the device"):
            steps_of(name, tmp_path, monkeypatch)
    else:
        assert steps_of(name, tmp_path, monkeypatch).counts["convolution"] > 0


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.any()),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x.masked_select(x > 0),
        lambda x: x.__setitem__(x > 0, torch.zeros(1)),
    ],
)
def test_the_watch_sees_what_waits(wait: Any) -> None:
    with pytest.raises(AssertionError, match="waits for the device"), Watch():
        wait(torch.ones(3))
