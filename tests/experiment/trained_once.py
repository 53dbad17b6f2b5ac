"""Tiny runs that many tests start from: each is trained once per process of the tests, and copied."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from semco.config import configure
from semco.experiment import train
from semco.run.result import RunResult
from semco.training.observer import NullObserver
from semco.training.signals import Interrupted

_made: dict[str, tuple[Path, RunResult | None]] = {}


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _copy(kind: str, values: dict[str, Any], run: Path, make: Callable[[Path], RunResult | None]) -> RunResult | None:
    key = f"{kind} {json.dumps(values, sort_keys=True)}"
    if key not in _made:
        original = _folder() / str(len(_made))
        _made[key] = original, make(original)
    original, result = _made[key]
    shutil.copytree(original, run, symlinks=True)
    return result


def finished(values: dict[str, Any], run: Path) -> RunResult:
    """Put a finished run into the folder, and return what `train` returned; ``run`` in it is another folder."""
    result = _copy("finished", values, run, lambda path: train(configure(options=values), path))
    assert result is not None
    return result


def interrupted(values: dict[str, Any], run: Path) -> None:
    """Put a run into the folder that stopped after its second checkpoint."""
    _copy("interrupted", values, run, lambda path: _stop_at(7, values, path))


def interrupted_early(values: dict[str, Any], run: Path) -> None:
    """Put a run into the folder that stopped before its first checkpoint."""
    _copy("early", values, run, lambda path: _stop_at(1, values, path))
    assert not list(run.glob("checkpoints/*"))


def _stop_at(last: int, values: dict[str, Any], run: Path) -> None:
    class Stop(NullObserver):
        def on_step(self, step: int) -> None:
            if step == last:
                raise Interrupted(2, step, run)

    with pytest.raises(Interrupted):
        train(configure(options=values), run, Stop())
