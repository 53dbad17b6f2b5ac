"""What every method that is fitted must do: a head and a transform that fold into a network."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from semco.methods import FittedMethod, Method, build_method
from semco.models.fitted import network_on_views
from semco.types import Outputs, Task

CLASSES, FEATURES, VIEWS = 4, 12, 2
every_fitted_method = pytest.mark.parametrize(
    "name", [name for name, each in sorted(Method.registry.items()) if issubclass(each, FittedMethod)]
)


class Held:
    """`Photos` in memory."""

    def __init__(self, views: Tensor) -> None:
        self._views = views

    def __len__(self) -> int:
        return len(self._views)

    def read(self, position: Tensor) -> Tensor:
        return self._views[position]


def make_views(count: int, seed: int, spread: float = 0.5) -> tuple[Tensor, Tensor]:
    """Positive features (N, V, F) around one centre per class, and classes (N,)."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.rand(CLASSES, 1, FEATURES, generator=torch.Generator().manual_seed(99)) * 4
    class_ids = torch.arange(count) % CLASSES
    return (centres[class_ids] + spread * torch.randn(count, VIEWS, FEATURES, generator=generator)).abs(), class_ids


def make_method(name: str) -> FittedMethod:
    vectors = torch.randn(CLASSES, 5, generator=torch.Generator().manual_seed(3))
    names = tuple(f"class {i}" for i in range(CLASSES))
    counts = torch.full((CLASSES,), 3)
    task = Task(names, torch.nn.functional.normalize(vectors, dim=1), torch.arange(CLASSES), counts, 60, FEATURES)
    method = build_method(Method.registry[name].Config(name=name), task)
    assert isinstance(method, FittedMethod)
    return method


@every_fitted_method
def test_the_fitted_network_predicts_the_classes(name: str) -> None:
    method = make_method(name)
    (labelled, class_ids), (pool, _), (new, truth) = (make_views(n, seed) for seed, n in enumerate((12, 60, 80)))
    transform = method.transform(Held(torch.cat([labelled, pool])))
    x, unlabelled = (each[:, 0] if transform is None else transform(each) for each in (labelled, pool))
    head = method.fit(x, class_ids, unlabelled if method.most_pool else torch.empty(0, x.shape[1]))
    network = network_on_views(FEATURES, head, transform)
    outputs = network(new)
    assert outputs.logits.shape == (80, CLASSES)
    assert float((outputs.logits.argmax(dim=1) == truth).float().mean()) > 0.9
    again = method.fit(x, class_ids, unlabelled)
    assert torch.equal(head.weight, again.weight)  # a resumed run fits it again
    assert not any(parameter.requires_grad for parameter in network.parameters())


@every_fitted_method
def test_it_is_sure_of_answers_with_a_high_confidence(name: str) -> None:
    logits = torch.tensor([[4.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])  # 0.948 and 0.475
    found = make_method(name).pseudo_labels(Outputs(torch.zeros(2, 1), logits), torch.arange(2))["one_hot"]
    assert found.weights.tolist() == [1.0, 0.0]
    assert found.class_ids.tolist() == [0, 0]


@every_fitted_method
def test_no_steps_are_taken(name: str) -> None:
    with pytest.raises(AssertionError, match="takes no steps"):
        make_method(name).compute(None, None, None)  # type: ignore[arg-type]
