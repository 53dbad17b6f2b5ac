"""What every registered method must do, whatever it adds."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from semco.config import Config, MethodConfig
from semco.errors import UserError
from semco.methods import FittedMethod, Method, build_method
from semco.training.forward import NetworkForward
from semco.types import StepResult

ALL = sorted(Method.registry)
# Those that the loop trains; tests/methods/test_fitted.py is about the others.
METHODS = [name for name in ALL if not issubclass(Method.registry[name], FittedMethod)]
every_method = pytest.mark.parametrize("name", METHODS)
fitted_too = pytest.mark.parametrize("name", ALL)
every_mode = pytest.mark.parametrize("tune", ["all", "top", "heads"])
Make = Callable[..., "object"]


def numbers(result: StepResult) -> dict[str, torch.Tensor]:
    pseudo = {
        f"{head} {part}": getattr(labels, part)
        for head, labels in result.pseudo_labels.items()
        for part in ("class_ids", "weights", "confidence")
    }
    losses = {f"loss {name}": loss.detach() for name, loss in result.losses.items()}
    return {**losses, **pseudo, **{f"metric {k}": v for k, v in result.metrics.items()}}


def assert_same(one: StepResult, other: StepResult) -> None:
    left, right = numbers(one), numbers(other)
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


def same_state(one: nn.Module, other: nn.Module) -> None:
    left, right = one.state_dict(), other.state_dict()
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


def test_the_three_methods_are_registered() -> None:
    assert {"supervised", "fixmatch", "semco"} <= set(METHODS)


@fitted_too
def test_declarations(name: str) -> None:
    method = Method.registry[name]
    assert method.name == name
    assert method.title
    assert method.__doc__
    assert issubclass(method.Config, MethodConfig)
    assert method.Config().name == name  # type: ignore[call-arg]
    assert set(method.heads) <= {"one_hot", "semantic", "rotation"}
    assert method.views.labelled_weak + method.views.labelled_strong > 0


@fitted_too
def test_a_page_describes_it(name: str) -> None:
    page, heading = Path("docs", "methods", f"{name}.md"), f"# {Method.registry[name].title}"
    file = Path(__file__).parents[2] / page
    written = file.read_text(encoding="utf-8") if file.exists() else ""
    assert written.startswith(f"{heading}\n"), f"write {page}, a page about the method that begins with: {heading}"


@fitted_too
def test_config_round_trips(name: str) -> None:
    config = Config.parse({"method": name})
    assert Config.from_yaml(config.to_yaml()) == config
    assert type(Config.from_yaml(config.to_yaml()).method) is Method.registry[name].Config


@every_method
@pytest.mark.parametrize("classes", [2, 7])
def test_one_step(name: str, classes: int, bench: Make, batch: Make) -> None:
    b = bench(name, classes)
    result = b.step(batch(b.method.views, classes))
    assert result.losses
    for loss in (*result.losses.values(), result.total):
        assert loss.shape == ()
        assert torch.isfinite(loss)
    assert result.weights.keys() <= result.losses.keys()
    assert all(v.shape == () and torch.isfinite(v) and not v.requires_grad for v in result.metrics.values())
    for pseudo in result.pseudo_labels.values():
        assert pseudo.class_ids.shape == pseudo.weights.shape == pseudo.confidence.shape == (12,)
        assert pseudo.class_ids.dtype == torch.int64
        assert 0 <= int(pseudo.class_ids.min()) <= int(pseudo.class_ids.max()) < classes
        assert 0 <= float(pseudo.weights.min()) <= float(pseudo.weights.max()) <= 1
        assert not pseudo.weights.requires_grad
        assert not pseudo.confidence.requires_grad


@every_method
def test_total_is_the_weighted_sum(name: str, bench: Make, batch: Make) -> None:
    b = bench(name)
    result = b.step(batch(b.method.views, 7))
    expected = sum(result.weights.get(k, 1.0) * float(v.detach()) for k, v in result.losses.items())
    assert float(result.total.detach()) == pytest.approx(expected, rel=1e-5)


@every_method
def test_gradient_reaches_every_part(name: str, bench: Make, batch: Make) -> None:
    b = bench(name)
    b.step(batch(b.method.views, 7)).total.backward()
    for parameter_name, parameter in (*b.network.named_parameters(), *b.method.named_parameters()):
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
    for part in (b.network.backbone, *b.network.heads.values()):
        assert any(parameter.grad.abs().sum() > 0 for parameter in part.parameters())


@every_method
def test_target_views_get_no_gradient(name: str, bench: Make, batch: Make) -> None:
    """Views that are passed for targets must not also be passed, or otherwise used, with gradient."""
    b = bench(name)
    example = batch(b.method.views, 7)
    views = (*example.labelled.weak, *example.labelled.strong, *example.unlabelled.weak, *example.unlabelled.strong)
    for view in views:
        view.requires_grad_()
    b.step(example).total.backward()
    with_gradient = {id(view) for view in b.forward.with_gradient}
    for target in b.forward.without_gradient:
        if id(target) not in with_gradient:
            assert target.grad is None


@every_method
def test_a_step_is_a_function_of_state_and_generator(name: str, bench: Make, batch: Make) -> None:
    b = bench(name)
    first, second = b.copy(), b.copy()
    for step in range(3):
        torch.manual_seed(step)  # what a method draws must not come from the global generator
        one = first.step(batch(b.method.views, 7, seed=step), step)
        torch.manual_seed(99)
        assert_same(one, second.step(batch(b.method.views, 7, seed=step), step))
    same_state(first.method, second.method)


@every_method
def test_state_survives_saving(name: str, bench: Make, batch: Make) -> None:
    b = bench(name)
    b.refresh()
    for step in range(2):
        b.step(batch(b.method.views, 7, seed=step), step)
    restored = bench(name)
    restored.method.load_state_dict(b.method.state_dict())
    restored.network.load_state_dict(b.network.state_dict())
    restored.forward.average.load_state_dict(b.forward.average.state_dict())
    same_state(restored.method, b.method)
    next_batch = batch(b.method.views, 7, seed=5)
    assert_same(b.step(next_batch, 5), restored.step(next_batch, 5))
    same_state(restored.method, b.method)


@every_method
def test_batch_is_left_alone(name: str, bench: Make, batch: Make) -> None:
    b = bench(name)
    used, fresh = batch(b.method.views, 7), batch(b.method.views, 7)
    b.step(used)
    for side in ("labelled", "unlabelled"):
        for kind in ("weak", "strong"):
            pairs = zip(getattr(getattr(used, side), kind), getattr(getattr(fresh, side), kind), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs)
    assert torch.equal(used.class_ids, fresh.class_ids)


@every_method
@pytest.mark.parametrize("classes", [2, 7])
def test_heads_that_say_nothing(name: str, classes: int, bench: Make, batch: Make) -> None:
    """Uniform scores, zero embeddings: everything stays finite."""
    b = bench(name, classes)
    with torch.no_grad():
        for parameter in b.network.heads.parameters():
            parameter.zero_()
    result = b.step(batch(b.method.views, classes))
    result.total.backward()
    assert all(torch.isfinite(loss) for loss in result.losses.values())
    assert all(torch.isfinite(p.grad).all() for p in b.network.parameters())


@every_method
def test_double_precision(name: str, bench: Make, batch: Make) -> None:
    b = bench(name)
    b.method.to(torch.float64)
    b.network.to(torch.float64)
    b.forward.average.to(torch.float64)
    result = b.step(batch(b.method.views, 7, dtype=torch.float64))
    assert result.total.dtype == torch.float64
    single = bench(name)
    expected = single.step(batch(b.method.views, 7)).total
    assert float(result.total.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)


@every_method
@every_mode
def test_a_step_trains_what_is_trained_and_nothing_else(name: str, tune: str, tuned_bench: Make, batch: Make) -> None:
    b = tuned_bench(name, tune)
    before = copy.deepcopy(b.tuned.whole.state_dict())
    b.refresh()
    example = b.inputs(batch(b.method.views, 7))
    result = b.step(example)
    result.total.backward()
    assert all(torch.isfinite(loss) for loss in result.losses.values())
    layers = b.tuned.whole.backbone.layers()
    for parameter in (p for layer in layers[: b.tuned.first] for p in layer.parameters()):
        assert parameter.grad is None
    trained = [*(p for layer in layers[b.tuned.first :] for p in layer.parameters()), *b.network.heads.parameters()]
    for parameter in (*trained, *b.method.parameters()):
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
    for part in (*layers[b.tuned.first :], *b.network.heads.values()):
        weights = list(part.parameters())
        assert not weights or any(p.grad.abs().sum() > 0 for p in weights)
    # Running statistics are frozen as well.
    assert all(torch.equal(value, before[key]) for key, value in b.tuned.whole.state_dict().items())


@every_method
@every_mode
def test_cached_inputs_are_left_alone(name: str, tune: str, tuned_bench: Make, batch: Make) -> None:
    b = tuned_bench(name, tune)
    used, fresh = b.inputs(batch(b.method.views, 7)), b.inputs(batch(b.method.views, 7))
    b.step(used).total.backward()
    for side in ("labelled", "unlabelled"):
        for kind in ("weak", "strong"):
            pairs = zip(getattr(getattr(used, side), kind), getattr(getattr(fresh, side), kind), strict=True)
            assert all(torch.equal(one, other) for one, other in pairs)


@every_method
def test_losses_on_cached_outputs_are_those_on_images(name: str, tuned_bench: Make, batch: Make) -> None:
    """With frozen statistics, cutting the network in two does not change a step."""
    on_images = tuned_bench(name, "all")
    example = batch(on_images.method.views, 7)
    expected = on_images.step(on_images.inputs(example))
    for tune in ("top", "heads"):
        b = tuned_bench(name, tune)
        result = b.step(b.inputs(example))
        assert result.losses.keys() == expected.losses.keys()
        for key, loss in expected.losses.items():
            assert float(result.losses[key].detach()) == pytest.approx(float(loss.detach()), rel=1e-3, abs=1e-5)


def test_methods_that_change_images_are_not_cached() -> None:
    """Mixing, rotating or perturbing what the frozen layers return would be another method."""
    changing = {name for name in METHODS if Method.registry[name].changes_images}
    assert changing == {"cowmask", "ict", "mixmatch", "plcb", "remixmatch", "vat"}


@every_method
def test_only_methods_that_change_images_pass_others_to_the_network(name: str, bench: Make, batch: Make) -> None:
    """Each tensor that runs through the network is a view of the batch, unless ``changes_images`` is declared."""
    b = bench(name)
    example = batch(b.method.views, 7)
    views = (*example.labelled.weak, *example.labelled.strong, *example.unlabelled.weak, *example.unlabelled.strong)
    own = {view.data_ptr() for view in views}
    b.step(example)
    passed = [view for view in (*b.forward.with_gradient, *b.forward.without_gradient) if len(view)]
    assert all(view.data_ptr() in own for view in passed) != b.method.changes_images


def test_unknown_method() -> None:
    class Unheard(MethodConfig):
        pass

    with pytest.raises(UserError, match=r"unknown method 'semcoo'; did you mean 'semco'\?"):
        build_method(Unheard(name="semcoo"), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "fields", "remembered"),
    [
        ("ict", {}, ["labelled"]),
        ("cowmask", {}, ["labelled"]),
        # What it says of images is asked before mixing. Without mixing, then the labelled images in another order.
        ("plcb", {"alpha": 0.0, "warm_up": 1.0}, ["unlabelled", "labelled"]),
    ],
)
def test_images_before_mixing_are_remembered(
    bench: Make, batch: Make, name: str, fields: dict[str, float], remembered: list[str]
) -> None:
    b = bench(name, **fields)
    example = batch(b.method.views, 7)
    quiet = b.copy()
    with torch.no_grad():
        for part in remembered:
            quiet.network(getattr(example, part).weak[0])
    b.forward = NetworkForward(b.network, b.forward.average)
    b.step(example)
    expected = dict(quiet.network.named_buffers())
    for buffer, value in b.network.named_buffers():
        torch.testing.assert_close(value, expected[buffer], msg=buffer)
