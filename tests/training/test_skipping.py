"""Images without weight are left out of the pass with gradient, and nothing else changes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from semco.config import Config, ModelConfig, TrainingConfig, configure, merge
from semco.errors import UserError
from semco.experiment import train
from semco.methods import build_method
from semco.methods.freematch import FreeMatchThreshold
from semco.models import Network, build_network
from semco.models.averaging import ema_copy
from semco.models.tuning import tune_network
from semco.run.folder import RunFolder
from semco.training.forward import NetworkForward
from semco.training.skipping import rows_to_run, select, spread
from semco.types import Outputs, StepResult
from tests.methods.conftest import U, make_batch, make_task, progress_at

# Thresholds that some of the 12 images reach and others do not.
METHODS: dict[str, dict[str, Any]] = {
    "fixmatch": {"tau": 0.6},
    "freematch": {},
    "semco": {"tau_o": 0.7, "tau_e": 0.8},
    "semco_reference": {"tau_o": 0.7, "tau_e": 0.6},
    "semco_plus": {},
}


def bools(text: str) -> Tensor:
    return torch.tensor([letter == "x" for letter in text])


@pytest.mark.parametrize(
    ("taught", "parts", "expected"),
    [
        ("........", 4, []),
        (".x......", 4, [0, 1]),  # and the first of the others, up to two of eight
        ("...x.x..", 4, [3, 5]),
        ("x..x.x..", 4, [0, 1, 3, 5]),
        ("xxxxxxxx", 4, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("x....", 2, [0, 1, 2]),  # half of five is three
        ("x.xxx", 2, [0, 1, 2, 3, 4]),
    ],
)
def test_rows_by_hand(taught: str, parts: int, expected: list[int]) -> None:
    assert rows_to_run(bools(taught), parts).tolist() == expected


def test_selected_views_keep_their_memory_format() -> None:
    view = torch.arange(2 * 3 * 4 * 4.0).view(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    kept = select(view, torch.tensor([1]))
    assert torch.equal(kept, view[1:])
    assert kept.is_contiguous(memory_format=torch.channels_last)
    assert select(view, None) is view
    assert select(view, torch.arange(2)) is view


def test_outputs_are_spread_over_all_images() -> None:
    value = torch.tensor([[1.0], [2.0]], requires_grad=True)
    out = spread(Outputs(features=value, logits=3 * value), torch.tensor([0, 3]), 4)
    assert out.logits.tolist() == [[3.0], [0.0], [0.0], [6.0]]
    assert out.embedding is None
    out.logits.sum().backward()
    assert value.grad is not None
    assert value.grad.tolist() == [[3.0], [3.0]]


# --- the same losses and gradients ---


def make_network(heads: tuple[str, ...], norm: Literal["none", "frozen", "batch"]) -> Network:
    torch.manual_seed(0)
    model = ModelConfig(backbone="wrn-10-1", norm="none" if norm == "none" else "batch")
    network = build_network(model, heads, 7, 6, 3, 8)
    with torch.no_grad():
        for head in network.heads.values():
            head.weight.mul_(4)  # some confident predictions
    if norm == "frozen":
        network = tune_network(network, "all", freeze_norm=True).whole
    return network.train()


class Counted:
    """Counts the images that run with gradient."""

    def __init__(self, network: nn.Module) -> None:
        self.images = 0
        network.register_forward_pre_hook(self._count)

    def _count(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.images += len(inputs[0]) if torch.is_grad_enabled() else 0


def step(name: str, network: Network, parts: int | None) -> tuple[StepResult, dict[str, Tensor], int]:
    """Return the result of a step, the gradients and the number of images that ran with gradient."""
    method = build_method(Config.parse({"method": {"name": name, **METHODS[name]}}).method, make_task(7))
    for part in method.modules():
        if isinstance(part, FreeMatchThreshold):  # as late in a run, when it has become selective
            part.confidence.fill_(0.8)
            part.rate.steps.fill_(10_000)
    network = copy.deepcopy(network)
    counted = Counted(network)
    forward = NetworkForward(network, ema_copy(network), parts=parts)
    result = method.compute(make_batch(method.views, 7), forward, progress_at(0))
    result.total.backward()
    gradients = {each: p.grad for each, p in network.named_parameters() if p.grad is not None}
    return result, gradients, counted.images


@pytest.mark.parametrize("norm", ["none", "frozen"])
@pytest.mark.parametrize("name", METHODS)
def test_losses_and_gradients_are_the_same(name: str, norm: Literal["none", "frozen"]) -> None:
    network = make_network(("one_hot", "semantic") if "semco" in name else ("one_hot",), norm)
    every, gradients, most = step(name, network, None)
    some, others, fewer = step(name, network, 12)
    retained = torch.stack([pseudo.weights for pseudo in some.pseudo_labels.values()]).sum(dim=0) > 0
    assert 0 < int(retained.sum()) < U
    assert (most, fewer) == (4 + U, 4 + int(retained.sum()))
    assert every.losses.keys() == some.losses.keys()
    for key, loss in every.losses.items():
        torch.testing.assert_close(some.losses[key], loss, atol=1e-5, rtol=1e-5)
    assert gradients.keys() == others.keys()
    for key, gradient in gradients.items():
        torch.testing.assert_close(others[key], gradient, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["fixmatch", "semco"])
def test_a_step_that_retains_nothing_runs_the_labelled_images(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, name, {"fixmatch": {"tau": 1.0}, "semco": {"tau_o": 1.0, "tau_e": 1.0}}[name])
    network = make_network(("one_hot", "semantic"), "none")
    every, gradients, _ = step(name, network, None)
    some, others, images = step(name, network, 4)
    assert images == 4
    torch.testing.assert_close(some.total, every.total, atol=1e-5, rtol=1e-5)
    for key, gradient in gradients.items():
        torch.testing.assert_close(others.get(key, torch.zeros_like(gradient)), gradient, atol=1e-5, rtol=1e-5)


def test_batch_norm_sees_other_images() -> None:
    network = make_network(("one_hot",), "batch")
    assert float(step("fixmatch", network, None)[0].total.detach()) != pytest.approx(
        float(step("fixmatch", network, 12)[0].total.detach()), abs=1e-4
    )


# --- when ---


def training(**fields: Any) -> TrainingConfig:
    return Config.parse({"training": fields}).training


@pytest.mark.parametrize("other", [{"target_views": "joint"}, {"sync_batch_norm": True}])
def test_what_cannot_be_combined_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="skip=true needs target_views=no_grad and sync_batch_norm=false"):
        training(skip=True, **other)


@pytest.mark.usefixtures("no_page")
def test_a_run_is_the_same(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """Without normalisation, ``auto`` leaves images out; without it every number is the same up to rounding."""
    plain = {
        "model": {"norm": "none"},
        "method": {"name": "fixmatch", "tau": 0.33},
        "optim": {"lr": 0.03},
        "training": {"steps": 4, "log_every": 1, "validate_every": 4},
    }
    lines: dict[bool | str, list[dict[str, Any]]] = {}
    for skip in ("auto", False):
        train(configure(options=merge(tiny_values, merge(plain, {"training": {"skip": skip}}))), tmp_path / str(skip))
        lines[skip] = list(RunFolder(tmp_path / str(skip)).metrics())
    assert any(0 < line["mask_one_hot"] < 1 for line in lines["auto"])
    for mine, other in zip(lines["auto"], lines[False], strict=True):
        numbers = {key: value for key, value in other.items() if key not in ("seconds", "validation_accuracy")}
        assert {key: mine[key] for key in numbers} == pytest.approx(numbers, abs=1e-5)
