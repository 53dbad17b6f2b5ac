"""A short seeded run of every method: its losses were written down once, it survives a crash, and it has a page.

``python tests/test_golden.py`` writes them anew, for a change that is meant to change them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from semco.config import Config, configure
from semco.experiment import resume, train
from semco.methods import Method
from semco.report import write_report
from semco.run.folder import RunFolder
from tests.experiment.same_runs import StopAt, assert_same_run

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


def config_of(method: str, folder: Path) -> Config:
    """The configuration of five steps on noise, which is put into the folder."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (60, 3, 16, 16), generator=generator, dtype=torch.uint8)
    data, vectors = folder / "noise.npz", folder / "vectors.npy"
    names = np.array(["dog", "cat", "ship"])
    np.savez(data, x_train=images.permute(0, 2, 3, 1).numpy(), y_train=np.arange(60) % 3, class_names=names)
    np.save(vectors, np.array([[1, 0.2, 0], [1, -0.2, 0], [0, 0, 1]], dtype=np.float32))
    values: dict[str, Any] = {
        "data": {"source": str(data), "labels_per_class": 5},
        "labels": {"source": "matrix", "path": str(vectors), "eps": 0.2},
        "model": {"backbone": "wrn-10-1"},
        "method": CASES[method],
        "training": {"steps": 5, "batch_size": 8, "mu": 2, "log_every": 1, "checkpoint_every": 3, "device": "cpu"},
    }
    return configure(options=values)


def losses_of(run: Path) -> list[dict[str, float]]:
    """Every loss term of the steps of a run."""
    return [{name: line[name] for name in line if name.startswith("loss")} for line in RunFolder(run).metrics()]


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a run of a method, which is trained once."""

    @cache
    def trained(method: str) -> Path:
        folder = tmp_path_factory.mktemp(method)
        train(config_of(method, folder), folder / "run")
        return folder / "run"

    return trained


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize("method", CASES)
def test_the_losses_are_what_they_were(method: str, whole_run: Callable[[str], Path]) -> None:
    expected = json.loads(GOLDEN.read_text())[method]
    measured = losses_of(whole_run(method))
    assert len(measured) == len(expected) == 5
    for mine, golden in zip(measured, expected, strict=True):
        assert mine == pytest.approx(golden, rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize("method", CASES)
def test_a_crashed_run_resumes_as_if_nothing_had_happened(method: str, whole_run: Callable[[str], Path]) -> None:
    """In the middle of a pass over the images, with every loss term at work."""
    whole = whole_run(method)
    broken = whole.with_name("broken")
    with pytest.raises(RuntimeError, match="crash"):
        train(RunFolder(whole).config(), broken, StopAt(4))
    assert [path.name[-14:-12] for path in broken.glob("checkpoints/*")] == ["03"]
    resume(broken)
    assert_same_run(whole, broken)


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("method", CASES)
def test_the_page_of_a_run_is_written(method: str, whole_run: Callable[[str], Path]) -> None:
    run = whole_run(method)
    write_report([run], run / "report.html")
    title = Method.registry[method].title.partition(" (")[0]
    assert f"<h1>{title} on noise.npz</h1>" in unescape((run / "report.html").read_text(encoding="utf-8"))


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
            place = Path(scratch, name)
            place.mkdir()
            train(config_of(name, place), place / "run")
            fresh[name] = losses_of(place / "run")
        GOLDEN.write_text(json.dumps(fresh, indent=1) + "\n")
        sys.stdout.write(f"wrote {GOLDEN}\n")
