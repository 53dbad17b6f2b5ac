"""bfloat16: when it is chosen, what is computed in it, and that a run keeps the precision it was started with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from semco.config import Config, ModelConfig, configure, merge
from semco.evaluation.model_file import load_model
from semco.experiment import resume, train
from semco.methods import build_method
from semco.models import build_network, set_precision
from semco.models.averaging import ema_copy, update_ema
from semco.models.backbone import usable_precision
from semco.models.tuning import tune_network
from semco.training import execution
from semco.training.forward import NetworkForward
from semco.training.observer import NullObserver
from tests.experiment.same_runs import assert_same_run
from tests.methods.conftest import make_batch, make_task, progress_at


@pytest.mark.parametrize("has_it", [True, False])
def test_models_predict_in_bfloat16_on_gpus_that_have_it(has_it: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: has_it)
    assert usable_precision("bfloat16", torch.device("cuda")) == ("bfloat16" if has_it else "float32")
    assert usable_precision("float32", torch.device("cuda")) == usable_precision("bfloat16", torch.device("cpu"))


# --- what is computed in it ---


class Dtypes(TorchDispatchMode):
    """Records for every operation whether it reads bfloat16, inside and outside of the backbone."""

    def __init__(self, backbones: list[nn.Module]) -> None:
        super().__init__()
        self.depth, self.inside, self.outside = 0, set[str](), set[str]()
        for backbone in backbones:
            backbone.register_forward_pre_hook(self._enter)
            backbone.register_forward_hook(self._leave)

    def _enter(self, *_: object) -> None:
        self.depth += 1

    def _leave(self, *_: object) -> None:
        self.depth -= 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        if any(tensor.dtype == torch.bfloat16 for tensor in tensors):
            (self.inside if self.depth else self.outside).add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["fixmatch", "freematch", "mean_teacher", "semco", "semco_plus"])
def test_only_the_backbone_computes_in_bfloat16(name: str) -> None:
    method = build_method(Config.parse({"method": name}).method, make_task(7))
    network = build_network(ModelConfig(backbone="wrn-10-1"), method.heads, 7, 6, 3, 8).train()
    set_precision(network, "bfloat16")
    average = ema_copy(network)
    batch = make_batch(method.views, 7)
    with Dtypes([network.backbone, average.backbone]) as dtypes:
        result = method.compute(batch, NetworkForward(network, average), progress_at(0))
    assert "convolution" in dtypes.inside
    assert not dtypes.outside  # losses, softmax, cosines, thresholds
    assert {loss.dtype for loss in (*result.losses.values(), *result.metrics.values())} == {torch.float32}
    result.total.backward()
    update_ema(average, network, 0.5)
    for module in (network, average, method):
        assert {t.dtype for t in module.state_dict().values() if t.is_floating_point()} <= {torch.float32}
    assert {p.grad.dtype for p in network.parameters() if p.grad is not None} == {torch.float32}


def test_the_outputs_are_close_to_those_in_float32() -> None:
    torch.manual_seed(0)
    network = build_network(ModelConfig(backbone="wrn-10-1"), ("one_hot",), 7, 6, 3, 8).train()
    images = torch.randn(16, 3, 8, 8)
    exact = network(images)
    set_precision(network, "bfloat16")
    rounded = network(images)
    assert rounded.features.dtype == rounded.logits.dtype == torch.float32
    assert not torch.equal(rounded.features, exact.features)
    torch.testing.assert_close(rounded.features, exact.features, atol=0.05, rtol=0.05)
    assert torch.equal(rounded.logits, network.heads["one_hot"](rounded.features))  # not rounded again


def test_frozen_and_trained_layers_keep_the_precision() -> None:
    network = build_network(ModelConfig(backbone="wrn-10-1"), ("one_hot",), 7, 6, 3, 8)
    set_precision(network, "bfloat16")
    tuned = tune_network(network, "top", freeze_norm=True)
    trained = tuned.trained()
    assert tuned.frozen().precision == trained.backbone.precision == tuned.complete(trained).backbone.precision
    images = torch.randn(2, 3, 8, 8)
    assert tuned.frozen()(images).dtype == torch.float32
    joined = trained.eval()(tuned.frozen()(images))
    torch.testing.assert_close(joined.logits, network.eval()(images).logits, atol=0.05, rtol=0.05)


# --- runs ---


@pytest.fixture
def values(tiny_values: dict[str, Any]) -> dict[str, Any]:
    short = {"steps": 3, "batch_size": 4, "mu": 1, "checkpoint_every": 1, "validate_every": 3, "log_every": 1}
    short |= {"precision": "bfloat16"}
    return merge(tiny_values, {"training": short, "method": {"name": "semco"}})


class StopAt(NullObserver):
    def on_step(self, step: int) -> None:
        if step == 2:
            raise RuntimeError("crash")


@pytest.mark.usefixtures("no_page")
def test_a_run_in_bfloat16_resumes_bit_exactly(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, used = configure(options=values), list[str]()
    original = execution.set_precision
    monkeypatch.setattr(execution, "set_precision", lambda *args: (used.append(args[1]), original(*args)))
    whole = train(config, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="crash"):
        train(config, tmp_path / "broken", StopAt())
    resumed = resume(tmp_path / "broken")
    assert_same_run(tmp_path / "whole", tmp_path / "broken")
    assert whole.precision == resumed.precision == "bfloat16"
    assert json.loads((tmp_path / "whole/model/model.json").read_text())["precision"] == "bfloat16"
    assert set(used) == {"bfloat16"}
    assert load_model(tmp_path / "whole/model").network.backbone.precision == "float32"  # on a CPU
    monkeypatch.setattr("semco.models.backbone.has_bfloat16", lambda _: True)
    assert load_model(tmp_path / "whole/model").network.backbone.precision == "bfloat16"
