"""A short seeded run of every method: its losses were written down once, it survives a crash, and it has a page.

``python -m tests.test_golden`` writes them anew, for a change that is meant to change them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from semco.config import configure
from semco.experiment import resume, train
from semco.methods import FittedMethod, Method
from semco.report import write_report
from semco.run.folder import RunFolder
from tests.experiment.same_runs import StopAt, assert_same_run
from tests.experiment.trained_once import finished

GOLDEN = Path(__file__).parent / "golden_losses.json"
# Thresholds that a network of five steps reaches, so that every loss term counts.
REACHABLE: dict[str, dict[str, Any]] = {
    "cowmask": {"tau": 0.4},
    "fixmatch": {"tau": 0.4},
    "flexmatch": {"tau": 0.4},
    "simmatch": {"tau": 0.4, "warm_up": 0.0},
    "protocon": {"tau": 0.5, "warm_up_passes": 0},
    "finessl": {"tau": 0.4},
    "uda": {"tau": 0.4, "annealing": "none"},
    "featmatch": {"confidence": 0.4},
    "vat": {"lambda_entropy": 1.0},
    # With its own graph, which of these images of noise are neighbours would depend on the rounding of the processor.
    "label_propagation": {"neighbours": 100, "gamma": 50.0, "alpha": 0.5},
    "semco": {"tau_o": 0.4},
    "semco_reference": {"tau_e": 0.1, "tau_o": 0.4},
}
# All methods except those that are fitted and so have no losses.
CASES: dict[str, dict[str, Any]] = {
    name: {"name": name, **REACHABLE.get(name, {})}
    for name, method in sorted(Method.registry.items())
    if not issubclass(method, FittedMethod)
}
# Other processors add in another order; five steps let that grow to no more than this.
TOLERANCE = 2e-3


# With one large group among three classes all strong views choose the same group, which is fair by definition.
SILENT = {"semco_plus": {"loss/fairness_semantic"}}


def write_noise(folder: Path) -> None:
    """Put images of noise and vectors of their classes into the folder."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (60, 3, 16, 16), generator=generator, dtype=torch.uint8)
    names = np.array(["dog", "cat", "ship"])
    x_train, y_train = images.permute(0, 2, 3, 1).numpy(), np.arange(60) % 3
    np.savez(folder / "noise.npz", x_train=x_train, y_train=y_train, class_names=names)
    np.save(folder / "vectors.npy", np.array([[1, 0.2, 0], [1, -0.2, 0], [0, 0, 1]], dtype=np.float32))


def values_of(method: str, noise: Path) -> dict[str, Any]:
    """The configuration of five steps on noise."""
    return {
        "data": {"source": str(noise / "noise.npz"), "labels_per_class": 5},
        "labels": {"source": "matrix", "path": str(noise / "vectors.npy"), "eps": 0.2},
        "model": {"backbone": "wrn-10-1"},
        "method": CASES[method],
        "training": {
            "steps": 5,
            "batch_size": 8,
            "mu": 2,
            "log_every": 1,
            "checkpoint_every": 3,
            "device": "cpu",
            "precision": "float32",  # whatever this machine has
        },
    }


def losses_of(run: Path) -> list[dict[str, float]]:
    """Every loss term of the steps of a run."""
    return [{name: line[name] for name in line if name.startswith("loss")} for line in RunFolder(run).metrics()]


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noise")
    write_noise(folder)
    return folder


def golden_losses(method: str) -> list[dict[str, float]]:
    golden: dict[str, list[dict[str, float]]] = json.loads(GOLDEN.read_text())
    assert method in golden, f"write the losses of {method}: python -m tests.test_golden {method}"
    return golden[method]


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize("method", CASES)
def test_the_losses_are_what_they_were(method: str, noise: Path, tmp_path: Path) -> None:
    finished(values_of(method, noise), tmp_path / "run")
    expected = golden_losses(method)
    measured = losses_of(tmp_path / "run")
    assert len(measured) == len(expected) == 5
    for mine, golden in zip(measured, expected, strict=True):
        assert mine == pytest.approx(golden, rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize("method", CASES)
def test_a_crashed_run_resumes_as_if_nothing_had_happened(method: str, noise: Path, tmp_path: Path) -> None:
    """In the middle of a pass over the images, with every loss term at work."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finished(values_of(method, noise), whole)
    with pytest.raises(RuntimeError, match="crash"):
        train(configure(options=values_of(method, noise)), broken, StopAt(4))
    assert [path.name[-14:-12] for path in broken.glob("checkpoints/*")] == ["03"]
    resume(broken)
    assert_same_run(whole, broken)


@pytest.mark.usefixtures("no_page", "plain_figures")
@pytest.mark.parametrize("method", CASES)
def test_the_page_of_a_run_is_written(method: str, noise: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    finished(values_of(method, noise), run)
    write_report([run], run / "report.html")
    title = Method.registry[method].title.partition(" (")[0]
    assert f"<h1>{title} on noise.npz</h1>" in unescape((run / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("method", CASES)
def test_every_term_counts(method: str) -> None:
    """A term that is always 0 would be the same whatever a refactoring broke."""
    lines = golden_losses(method)
    silent = {name for name in lines[0] if not any(line[name] for line in lines)}
    assert silent == SILENT.get(method, set())


if __name__ == "__main__":
    # The golden losses of the methods that are named, or else of those that have none yet.
    torch.set_num_threads(1)  # as in the tests: more threads add in another order
    golden = json.loads(GOLDEN.read_text())
    wanted = sys.argv[1:] or [name for name in CASES if name not in golden]
    if unknown := sorted(set(wanted) - set(CASES)):
        sys.exit(f"no method that takes steps is called {', '.join(unknown)}; there are {', '.join(CASES)}.")
    with tempfile.TemporaryDirectory() as scratch:
        write_noise(Path(scratch))
        for name in wanted:
            train(configure(options=values_of(name, Path(scratch))), Path(scratch, name))
            golden[name] = losses_of(Path(scratch, name))
    GOLDEN.write_text(json.dumps({name: golden[name] for name in CASES}, indent=1) + "\n")
    sys.stdout.write(f"wrote the losses of {', '.join(wanted) or 'no method'} into {GOLDEN}\n")
