"""bfloat16: when it is chosen, what is computed in it, and that a run keeps the precision it was started with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from semco.config import Config, ModelConfig, configure, merge
from semco.errors import UserError
from semco.evaluation.model_file import load_model
from semco.experiment import resume, train
from semco.methods import build_method
from semco.models import build_network, set_precision
from semco.models.averaging import ema_copy, update_ema
from semco.models.tuning import tune_network
from semco.training import execution, precision
from semco.training.forward import NetworkForward
from semco.training.observer import NullObserver
from semco.training.precision import (
    Choice,
    Cpu,
    PassTimes,
    Subject,
    choose_precision,
    remembered_times,
    time_in_child,
    usable_precision,
)
from tests.experiment.same_runs import assert_same_run
from tests.methods.conftest import make_batch, make_task, progress_at

CPU = torch.device("cpu")
SUBJECT = Subject(ModelConfig(backbone="wrn-10-1"), channels=3, image_size=8)
PLAIN, CAPABLE = Cpu("Plain", frozenset({"avx2"})), Cpu("Capable", frozenset({"avx512_bf16", "amx_bf16"}))
FASTER, SLOWER = PassTimes(float32=2.0, bfloat16=1.0), PassTimes(float32=1.0, bfloat16=0.95)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite hides them."""
    monkeypatch.setattr(precision, "INSTRUCTIONS", frozenset({"avx512_bf16", "amx_bf16", "bf16"}))


# --- the machine ---


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(
    ("text", "model", "has_bfloat16"),
    [
        ("processor : 0\nmodel name\t: Some CPU\nflags\t\t: fpu avx2 amx_bf16 sse\n\nflags : none\n", "Some CPU", True),
        ("model name : Other\nflags : fpu avx2\n\nprocessor : 1\nflags : avx512_bf16\n", "Other", False),
        ("processor : 0\nFeatures : fp asimd bf16\n", "unknown", True),
        ("", "unknown", False),
    ],
)
def test_a_cpu_is_what_linux_lists_first(tmp_path: Path, text: str, model: str, has_bfloat16: bool) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    cpu = Cpu.of_this_machine(tmp_path / "cpuinfo")
    assert (cpu.model, cpu.has_bfloat16) == (model, has_bfloat16)


def test_without_a_list_nothing_is_known(tmp_path: Path) -> None:
    assert Cpu.of_this_machine(tmp_path / "missing") == Cpu("unknown", frozenset())


# --- the choice ---


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(
    ("wanted", "cpu", "times", "expected"),
    [
        ("auto", CAPABLE, FASTER, "bfloat16"),
        ("auto", CAPABLE, SLOWER, "float32"),  # 5 % are not worth its rounding
        ("auto", CAPABLE, None, "float32"),  # the child process died
        ("bfloat16", CAPABLE, SLOWER, "bfloat16"),
        ("float32", CAPABLE, FASTER, "float32"),
    ],
)
def test_the_measured_pass_decides(wanted: Any, cpu: Cpu, times: PassTimes | None, expected: str) -> None:
    assert choose_precision(wanted, CPU, SUBJECT, cpu, lambda _: times).precision == expected


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(("wanted", "expected"), [("auto", "float32"), ("bfloat16", "bfloat16")])
def test_a_cpu_without_instructions_is_not_measured(wanted: Any, expected: str) -> None:
    def measure(_: Subject) -> PassTimes:
        raise AssertionError("measured")

    choice = choose_precision(wanted, CPU, SUBJECT, PLAIN, measure)
    assert choice.precision == expected
    assert ("many times as long" in choice.reason) == (wanted == "bfloat16")


@pytest.mark.usefixtures("instructions")
def test_what_the_user_hears() -> None:
    assert "2.00 times as fast" in choose_precision("auto", CPU, SUBJECT, CAPABLE, lambda _: FASTER).reason
    died = replace(SUBJECT, image_size=16)
    assert "float32 is used" in choose_precision("auto", CPU, died, CAPABLE, lambda _: None).reason
    with pytest.raises(UserError, match=r"set training\.precision=float32"):
        choose_precision("bfloat16", CPU, died, CAPABLE, lambda _: None)


@pytest.mark.parametrize(("wanted", "has_it", "expected"), [("auto", True, "bfloat16"), ("auto", False, "float32")])
def test_a_gpu_says_what_it_has(wanted: Any, has_it: bool, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: has_it)
    assert choose_precision(wanted, torch.device("cuda"), SUBJECT).precision == expected
    assert usable_precision("bfloat16", torch.device("cuda"), SUBJECT) == expected
    assert usable_precision("float32", torch.device("cuda"), SUBJECT) == "float32"
    if not has_it:
        with pytest.raises(UserError, match="this GPU has no bfloat16"):
            choose_precision("bfloat16", torch.device("cuda"), SUBJECT)


class Measure:
    def __init__(self, times: PassTimes | None) -> None:
        self.times, self.calls = times, 0

    def __call__(self, subject: Subject) -> PassTimes | None:
        assert subject
        self.calls += 1
        return self.times


@pytest.mark.parametrize("times", [FASTER, None])
def test_a_machine_is_measured_once_per_network(times: PassTimes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = Measure(times)
    assert [remembered_times(SUBJECT, CAPABLE, measure) for _ in range(3)] == [times] * 3
    assert measure.calls == 1
    others = [
        (replace(SUBJECT, image_size=32), CAPABLE),
        (replace(SUBJECT, channels=1), CAPABLE),
        (replace(SUBJECT, model=ModelConfig(backbone="wrn-10-2")), CAPABLE),
        (SUBJECT, PLAIN),
        (SUBJECT, replace(CAPABLE, model="Another")),
    ]
    for subject, cpu in others:
        remembered_times(subject, cpu, measure)
    assert measure.calls == 1 + len(others)
    monkeypatch.setattr(torch, "__version__", "99")
    remembered_times(SUBJECT, CAPABLE, measure)
    assert measure.calls == 2 + len(others)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"seconds": 3}', '{"seconds": {"float32": 0, "bfloat16": 1}}'])
def test_a_damaged_measurement_is_made_again(tmp_path: Path, content: str) -> None:
    remembered_times(SUBJECT, CAPABLE, lambda _: SLOWER)
    (file,) = (tmp_path / "cache/semco/precision").iterdir()
    file.write_text(content)
    assert remembered_times(SUBJECT, CAPABLE, lambda _: FASTER) == FASTER
    assert json.loads(file.read_text())["seconds"] == {"float32": 2.0, "bfloat16": 1.0}


def test_a_child_that_dies_means_none() -> None:
    assert time_in_child(SUBJECT, "import os, signal; os.kill(os.getpid(), signal.SIGILL)") is None
    assert time_in_child(SUBJECT, "print('nonsense')") is None
    told = 'import sys, json; json.loads(sys.argv[1]); print(json.dumps({"float32": 2.0, "bfloat16": 1.0}))'
    assert time_in_child(SUBJECT, told) == FASTER


def test_the_child_times_both_precisions(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "PIXELS", 2 * 8 * 8)
    seen: list[str] = []
    original = precision.set_precision
    monkeypatch.setattr(precision, "set_precision", lambda *args: (seen.append(args[1]), original(*args)))
    monkeypatch.setattr(precision, "MEASURED", 0.0)
    precision.print_times(SUBJECT.to_json())
    times = json.loads(capsys.readouterr().out)
    assert times.keys() == {"float32", "bfloat16"}
    assert min(times.values()) > 0
    assert seen[:4] == ["float32", "bfloat16", "float32", "bfloat16"]
    assert Subject.from_json(SUBJECT.to_json()) == SUBJECT


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
    return merge(tiny_values, {"training": short, "method": {"name": "semco"}})


class StopAt(NullObserver):
    def on_step(self, step: int) -> None:
        if step == 2:
            raise RuntimeError("crash")


@pytest.mark.usefixtures("no_page")
def test_a_run_in_bfloat16_resumes_bit_exactly_and_on_any_machine(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``auto`` was bfloat16 where the run was started, and would be float32 where it is resumed."""
    auto, used = configure(options=values), list[str]()
    original = execution.set_precision
    monkeypatch.setattr(execution, "set_precision", lambda *args: (used.append(args[1]), original(*args)))
    with monkeypatch.context() as patch:
        patch.setattr("semco.experiment.session.choose_precision", lambda *_: Choice("bfloat16"))
        whole = train(auto, tmp_path / "whole")
        with pytest.raises(RuntimeError, match="crash"):
            train(auto, tmp_path / "broken", StopAt())
    resumed = resume(tmp_path / "broken")
    assert_same_run(tmp_path / "whole", tmp_path / "broken")
    assert whole.precision == resumed.precision == "bfloat16"
    assert json.loads((tmp_path / "whole/model/model.json").read_text())["precision"] == "bfloat16"
    assert used == ["bfloat16"] * 3
    _check_loading(tmp_path / "whole/model", monkeypatch)


def _check_loading(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without bfloat16, or one that forbids it, predicts in float32."""
    assert load_model(model).network.backbone.precision == "float32"
    monkeypatch.setattr(Cpu, "of_this_machine", classmethod(lambda _: CAPABLE))
    monkeypatch.setattr(precision, "INSTRUCTIONS", frozenset({"amx_bf16"}))
    monkeypatch.setattr(precision, "remembered_times", lambda *_: FASTER)
    assert load_model(model).network.backbone.precision == "bfloat16"
    monkeypatch.setattr(precision, "remembered_times", lambda *_: None)
    assert load_model(model).network.backbone.precision == "float32"
