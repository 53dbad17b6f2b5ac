"""Small data that a run learns within seconds."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

# A shell starts background jobs with SIGINT ignored, and the processes that tests start and interrupt would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests run side by side; more threads would only get into each other's way. Not a fixture: those of a session or a
# module, which train runs as well, come before any fixture of a test. The variable is for child processes, which the
# workers of the tests are too.
os.environ["OMP_NUM_THREADS"] = "1"

# Looking for garbage among half a million objects takes a quarter of the time of the collection; see below.
gc.disable()

CLASSES = ("dog", "cat", "ship", "truck")

# The files that take longest, with the seconds of each; what they are to the second does not matter.
LONG_FILES = {
    "experiment/test_pretrained_runs.py": 25,
    "experiment/test_runs_experiment.py": 26,
    "test_golden.py": 30,
    "distributed/test_distributed.py": 28,
    "distributed/test_distributed_methods.py": 25,
    "methods/test_contract.py": 8,
    "cli/test_runs_cli.py": 18,
    "studio/test_studio_accessibility.py": 15,
    "export/test_export.py": 15,
    "export/test_formats.py": 20,
    "models/test_backbones.py": 13,
    "models/test_hf.py": 12,
    "report/test_page.py": 12,
    "studio/test_studio_server.py": 11,
    "studio/test_studio_browser.py": 9,
    "test_estimator.py": 9,
    "cli/test_demo_cli.py": 8,
    "cli/test_compare_cli.py": 10,
    "distributed/test_distributed_tuning.py": 8,
    "predict/test_zero_shot.py": 7,
    "training/test_execution.py": 7,
    "test_architecture.py": 7,
    "models/test_tuning.py": 6,
    "data/test_augment_pillow.py": 6,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let every worker begin with long files and end with short tests, so that all of them end together.

    A worker is first sent as many tests as any other, in this order, and later takes the last tests of the others.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1:
        return
    folder = Path(__file__).parent
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path.relative_to(folder).as_posix(), []).append(item)
    short = [item for name, tests in files.items() if name not in LONG_FILES for item in tests]
    queues: list[list[pytest.Item]] = [[] for _ in range(workers)]
    seconds = [0] * workers
    for name in sorted(files.keys() & LONG_FILES.keys(), key=lambda name: (-LONG_FILES[name], name)):
        least = seconds.index(min(seconds))
        queues[least] += files[name]
        seconds[least] += LONG_FILES[name]
    share = len(items) // workers
    for queue in queues[:-1]:
        missing = max(0, share - len(queue))
        queue += short[:missing]
        del short[:missing]
    queues[-1] += short
    items[:] = [item for queue in queues for item in queue]


def pytest_sessionstart(session: pytest.Session) -> None:
    """One process that forks others is enough for all workers; they inherit its address (tests/forking)."""
    if session.config.getoption("numprocesses", None):
        from tests.forking import start_server

        start_server()


@pytest.fixture
def forked_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that the package starts with Python need not import it."""
    from tests.forking import forked_python

    monkeypatch.setattr(sys, "executable", forked_python())


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread again after a test that asked for more."""
    yield
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _same_computation_everywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty cache folder."""
    import torch

    from tests.tiny_backbone import add_tiny_backbone

    # Not the user's cache folder, in which another run of the tests may write too. Matplotlib keeps its list of fonts.
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("MPLCONFIGDIR", str(caches / "matplotlib"))
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    add_tiny_backbone()
    with pytest.MonkeyPatch.context() as patch:
        # A tiny run flushes some 40 files to the disk, 5 to 10 ms each: more than it computes. What is flushed, and
        # when, is tested by calls; no test cuts the power.
        patch.setattr("os.fsync", lambda _: None)
        # The original notes the seed, with the stack of its caller, for devices that no test uses: 3 ms per call.
        patch.setattr("torch.manual_seed", torch.default_generator.manual_seed)
        # A plan repeats its short passes for 0.3 s, because cores may be busy; no test needs its plan to be right.
        patch.setattr("semco.training.execution.SECONDS", 0.0)
        # Each run returns what it freed to the system, here from the memory of all tests: 8 ms, twice or more per run.
        patch.setattr("semco.training.allocator._glibc", lambda _: None)
        yield


def pytest_collection_finish() -> None:
    """From now on look for garbage again, among what tests make and not among the modules, and less often.

    Only workers come here. The process that hands out the tests does not need torch, so this file imports it late.
    """
    import torch

    torch.set_num_threads(1)
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


def tiny_images(per_class: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise, brighter in the quarter of the image that stands for the class: (N, 8, 8) uint8, (N,)."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(CLASSES)), per_class)
    images = rng.integers(0, 100, size=(len(labels), 8, 8))
    for image, label in zip(images, labels, strict=True):
        top, left = 4 * (label // 2), 4 * (label % 2)
        image[top : top + 4, left : left + 4] += 120
    return images.astype(np.uint8), labels


def load_script(name: str) -> ModuleType:
    """A file of ``scripts/``, which is no package, as a module."""
    path = Path(__file__).parents[1] / f"scripts/{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tiny_npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes in the layout of an .npz data set."""
    path = tmp_path_factory.mktemp("data") / "tiny.npz"
    x_train, y_train = tiny_images(40, seed=0)
    x_test, y_test = tiny_images(20, seed=1)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test, class_names=np.array(CLASSES))
    return path


@pytest.fixture(scope="session")
def tiny_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Label vectors in which dog and cat, ship and truck are neighbours."""
    path = tmp_path_factory.mktemp("vectors") / "tiny.npy"
    rows = np.array([[1, 0.3, 0, 0], [1, -0.3, 0, 0], [0, 0, 1, 0.3], [0, 0, 1, -0.3]], dtype=np.float32)
    np.save(path, rows)
    return path


@pytest.fixture(scope="session")
def tiny_values(tiny_npz: Path, tiny_vectors: Path) -> dict[str, Any]:
    """Configuration values of a run that takes about a second: flips would swap the classes."""
    return {
        "data": {"source": str(tiny_npz), "labels_per_class": 4},
        "labels": {"source": "matrix", "path": str(tiny_vectors), "eps": 0.3},
        "model": {"backbone": "tiny"},
        "augment": {"flip": False, "pad": 0.0, "operations": 1, "cutout": 0.25},
        "training": {
            "steps": 8,
            "batch_size": 8,
            "mu": 2,
            "checkpoint_every": 3,
            "validate_every": 4,
            "device": "cpu",
            "precision": "float32",  # whatever this machine has
        },
    }


@pytest.fixture
def plain_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have empty figures: all are drawn, but not written as SVG, which takes two thirds of the time of a page.

    For tests of what else a page or a run folder holds; the figures are tested in tests/report.
    """

    def to_svg(_: object, description: str) -> str:
        return f'<svg role="img" aria-label="{escape(description)}"></svg>'

    monkeypatch.setattr("semco.report.figures._to_svg", to_svg)


@pytest.fixture
def page(plain_figures: None) -> None:
    """Asked for by tests of runs that write their page, in files that otherwise use ``no_page``."""


@pytest.fixture
def no_page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs write no page, which takes half of the time of a tiny run; for tests that change nothing of it."""
    if "page" not in request.fixturenames:
        monkeypatch.setattr("semco.experiment.write.write_report", lambda *_: None)


@pytest.fixture(scope="module")
def each_probe_is_fitted_once() -> Iterator[None]:
    """Runs with the same labelled features share their probe, which takes half of the time of such a run to fit."""
    from torch import Tensor

    from semco.methods.linear_probe import Probe, fit_probe

    fitted: dict[tuple[object, ...], Probe] = {}

    def fit(features: Tensor, class_ids: Tensor, num_classes: int, strength: float | None = None) -> Probe:
        key = features.shape, features.numpy().tobytes(), tuple(class_ids.tolist()), num_classes, strength
        if key not in fitted:
            fitted[key] = fit_probe(features, class_ids, num_classes, strength)
        return fitted[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("semco.experiment.model.fit_probe", fit)
        patch.setattr("semco.experiment.fitted.fit_probe", fit)
        yield
