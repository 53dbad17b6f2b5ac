"""The linear probe: the same answer as plain scikit-learn on the full features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from torch import Tensor

from semco.methods.linear_probe import STRENGTHS, fit_probe
from semco.models import LinearHead


def make_features(per_class: int, classes: int, size: int, seed: int = 0, spread: float = 1.0) -> tuple[Tensor, Tensor]:
    """Features (N, F) around one random centre per class, and classes (N,)."""
    generator = torch.Generator().manual_seed(seed)
    class_ids = torch.arange(classes).repeat_interleave(per_class)
    centres = torch.randn(classes, size, generator=generator)
    return centres[class_ids] + spread * torch.randn(len(class_ids), size, generator=generator), class_ids


def plain_probabilities(features: Tensor, class_ids: Tensor, new: Tensor, strength: float) -> np.ndarray:
    """Probabilities (N, classes with a label) of scikit-learn on the full features."""
    model = LogisticRegression(C=strength, max_iter=10_000, tol=1e-8)
    probabilities: np.ndarray = model.fit(features.double().numpy(), class_ids.numpy()).predict_proba(new.numpy())
    return probabilities


@pytest.mark.parametrize(
    ("per_class", "classes", "size"),
    [
        (4, 5, 64),  # fewer images than features
        (20, 3, 12),  # more images than features
        (8, 4, 32),  # as many
        (6, 2, 40),  # two classes: scikit-learn has one row of weights
        (20, 2, 10),
    ],
)
def test_the_probe_equals_logistic_regression_on_the_full_features(per_class: int, classes: int, size: int) -> None:
    features, class_ids = make_features(per_class, classes, size)
    new, _ = make_features(10, classes, size, seed=1)
    probe = fit_probe(features, class_ids, classes)
    assert (probe.head.weight.shape, probe.head.bias.shape) == ((classes, size), (classes,))
    expected = plain_probabilities(features, class_ids, new, probe.strength)
    np.testing.assert_allclose(probe.head.logits(new).softmax(-1).numpy(), expected, atol=1e-3)


@pytest.mark.parametrize("present", [[0, 2, 3], [1, 4]])
def test_classes_without_a_label_are_never_predicted(present: list[int]) -> None:
    features, index = make_features(5, len(present), 30)
    new, _ = make_features(50, len(present), 30, seed=1, spread=20.0)
    class_ids = torch.tensor(present)[index]
    probe = fit_probe(features, class_ids, num_classes=5)
    probabilities = probe.head.logits(new).softmax(-1).numpy()
    assert set(probabilities.argmax(axis=-1)) <= set(present)
    expected = plain_probabilities(features, class_ids, new, probe.strength)
    np.testing.assert_allclose(probabilities[:, present], expected, atol=1e-3)
    assert np.delete(probabilities, present, axis=1).max() < 1e-6


def test_a_single_labelled_class_is_always_predicted() -> None:
    probe = fit_probe(torch.randn(3, 6, generator=torch.Generator().manual_seed(0)), torch.tensor([2, 2, 2]), 4)
    assert probe.head.logits(100 * torch.randn(20, 6)).argmax(-1).tolist() == [2] * 20


def test_cross_validation_chooses_the_penalty() -> None:
    features, class_ids = make_features(7, 4, 20, spread=1.5)
    x, y = features.double().numpy(), class_ids.numpy()
    splits = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = {c: cross_val_score(LogisticRegression(C=c, max_iter=5000), x, y, cv=splits).mean() for c in STRENGTHS}
    probe = fit_probe(features, class_ids, 4)
    assert probe.strength == max(scores, key=lambda c: scores[c])
    given = fit_probe(features, class_ids, 4, strength=10.0)
    assert given.strength == 10.0
    assert torch.equal(given.head.weight, probe.head.weight) == (probe.strength == 10.0)
    assert 0.3 < scores[probe.strength] < 1  # neither chance nor perfect, or the test would show nothing


def test_the_same_features_give_the_same_probe() -> None:
    """Bit for bit: a resumed run fits it again, and tests of runs share what they fitted."""
    one, two = (fit_probe(*make_features(4, 4, 64), num_classes=4) for _ in range(2))
    assert one.strength == two.strength
    assert torch.equal(one.head.weight, two.head.weight)
    assert torch.equal(one.head.bias, two.head.bias)


def test_with_one_label_in_a_class_there_is_nothing_to_leave_out() -> None:
    features, class_ids = make_features(3, 3, 10)
    probe = fit_probe(features[2:], class_ids[2:], 3)  # one image of class 0
    assert probe.strength == 1.0


def test_logits_are_affine() -> None:
    head, x = LinearHead(torch.tensor([[1.0, 2.0], [0.0, -1.0]]), torch.tensor([0.5, 0.0])), torch.tensor([[3.0, 4.0]])
    assert head.logits(x.double()).tolist() == [[11.5, -4.0]]
    assert head.layer()(x).tolist() == [[11.5, -4.0]]
