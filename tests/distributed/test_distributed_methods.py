"""Methods with state or inner passes of their own, in two processes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from test_distributed import assert_close, config_of, in_processes, lines_of, tensors_of, train_all
from torch import Tensor

from semco.config import Config, merge
from semco.experiment import train
from semco.methods import vat

# Processes that import torch, on a busy machine.
pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("no_page")]
# What each process would draw of its own is turned off: the rest is the same.
STATELESS: dict[str, dict[str, Any]] = {
    "mean_teacher": {},
    "pi_model": {},
    "pseudo_label": {"start": 0.0, "end": 0.0},
    "mixmatch": {"alpha": 0.0},
    "ict": {"alpha": 0.0},
    "uda": {"tau": 0.3},
    "devise": {},
    "featmatch": {},
}
WITH_ROWS: dict[str, dict[str, Any]] = {
    "temporal_ensembling": {},
    "plcb": {"alpha": 0.0},
    "flexmatch": {"tau": 0.4},
    "label_propagation": {"warmup": 0.0},
}
# Statistics of the step as a whole, and rows of labelled images.
OF_THE_WHOLE_STEP: dict[str, dict[str, Any]] = {
    "freematch": {"decay": 0.7, "lambda_f": 1.0},
    "softmatch": {"decay": 0.1},
    "adamatch": {"decay": 0.5},
    "simmatch": {"tau": 0.3},
    "finessl": {"tau": 0.3},
    "protocon": {"tau": 0.3, "warm_up_passes": 0},
    "cowmask": {"proportion_min": 0.0, "proportion_max": 0.0, "tau": 0.3},
    "remixmatch": {"strong_views": 2, "alpha": 0.0, "lambda_rotation": 0.0},
    "vat": {"lambda_entropy": 0.5},
}


# Label propagation ranks neighbours and stops its solver by comparisons, which multiply differences of rounding.
TOLERANCE = {"label_propagation": 1e-3}


def configs_of(values: dict[str, Any], methods: dict[str, dict[str, Any]], norm: str, steps: int) -> dict[str, Config]:
    short = {"model": {"norm": norm}, "training": {"steps": steps}}
    own = {name: {"method": {"name": name, **fields}} for name, fields in methods.items()}
    return {name: config_of(merge(values, fields), name, **short) for name, fields in own.items()}


def train_in_two_and_in_one(configs: dict[str, Config], folder: Path) -> None:
    in_processes(2, train_all, {str(folder / f"two-{m}"): config.to_yaml() for m, config in configs.items()})
    for method, config in configs.items():
        train(config, folder / f"one-{method}")


def test_two_processes_compute_what_one_does(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    train_in_two_and_in_one(configs_of(tiny_values, STATELESS, "none", 3), tmp_path)
    for method in STATELESS:
        assert_close(tmp_path / f"one-{method}", tmp_path / f"two-{method}")


def test_rows_of_images_are_those_of_the_process_that_saw_them(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """Twelve steps meet images a second time, in the other process as often as not."""
    train_in_two_and_in_one(configs_of(tiny_values, WITH_ROWS, "none", 12), tmp_path)
    for method in WITH_ROWS:
        one, two = (tensors_of(tmp_path / f"{count}-{method}") for count in ("one", "two"))
        state = [name for name in one if not name.startswith("meters")]
        assert any(name.startswith("method.") for name in state)
        for name in state:
            slack = TOLERANCE.get(method, 1e-5)
            torch.testing.assert_close(one[name], two[name], atol=slack, rtol=slack, msg=f"{method}: {name}")
    visits = tensors_of(tmp_path / "two-temporal_ensembling")["method.visits"]
    assert int(visits.max()) > 1
    assert bool((tensors_of(tmp_path / "two-flexmatch")["method.policy.chosen"] >= 0).any())
    assert float(tensors_of(tmp_path / "two-label_propagation")["method.certainty"].max()) > 0


def start_from_the_images(images: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    """In place of VAT's draws, which no two processes share."""
    return images.cos()


def train_all_without_draws(runs: dict[str, str]) -> None:
    vat.random_directions = start_from_the_images
    train_all(runs)


def test_statistics_of_a_step_are_those_of_all_its_images(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = configs_of(tiny_values, OF_THE_WHOLE_STEP, "none", 3)
    in_processes(2, train_all_without_draws, {str(tmp_path / f"two-{m}"): c.to_yaml() for m, c in configs.items()})
    monkeypatch.setattr(vat, "random_directions", start_from_the_images)
    for method, config in configs.items():
        train(config, tmp_path / f"one-{method}")
        one, two = (tensors_of(tmp_path / f"{count}-{method}") for count in ("one", "two"))
        for name in one:
            if not name.startswith("meters"):
                torch.testing.assert_close(one[name], two[name], atol=1e-5, rtol=1e-5, msg=f"{method}: {name}")
    assert float(tensors_of(tmp_path / "two-simmatch")["method.bank"].abs().sum()) > 0
    assert 0 < float(tensors_of(tmp_path / "two-freematch")["method.policy.confidence"]) < 1


def test_methods_that_draw_run_in_two_processes(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """Partners, masks and turns are drawn by each process for its own images."""
    drawing = {"remixmatch": {"strong_views": 2}, "cowmask": {}, "vat": {}}
    configs = configs_of(tiny_values, drawing, "batch", 4)
    in_processes(2, train_all, {str(tmp_path / m): config.to_yaml() for m, config in configs.items()})
    for method in drawing:
        losses = [line["loss"] for line in lines_of(tmp_path / method)]
        assert losses
        assert all(math.isfinite(loss) for loss in losses)
