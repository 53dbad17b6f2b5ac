"""The linear probe: the same answer as plain scikit-learn on the full features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold, cross_val_score
from torch import Tensor

from semco.evaluation.probe import (
    EMBEDDING_LENGTH,
    PENALTIES,
    STRENGTHS,
    Probe,
    fit_embedding,
    fit_probe,
    with_embedding_length,
)
from semco.losses import cosine_loss
from semco.resolve.rules import PRETRAINED_HEADS


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
    assert (probe.weight.shape, probe.bias.shape) == ((classes, size), (classes,))
    expected = plain_probabilities(features, class_ids, new, probe.strength)
    np.testing.assert_allclose(probe.logits(new).softmax(-1).numpy(), expected, atol=1e-3)


@pytest.mark.parametrize("present", [[0, 2, 3], [1, 4]])
def test_classes_without_a_label_are_never_predicted(present: list[int]) -> None:
    features, index = make_features(5, len(present), 30)
    new, _ = make_features(50, len(present), 30, seed=1, spread=20.0)
    class_ids = torch.tensor(present)[index]
    probe = fit_probe(features, class_ids, num_classes=5)
    probabilities = probe.logits(new).softmax(-1).numpy()
    assert set(probabilities.argmax(axis=-1)) <= set(present)
    expected = plain_probabilities(features, class_ids, new, probe.strength)
    np.testing.assert_allclose(probabilities[:, present], expected, atol=1e-3)
    assert np.delete(probabilities, present, axis=1).max() < 1e-6


def test_a_single_labelled_class_is_always_predicted() -> None:
    probe = fit_probe(torch.randn(3, 6, generator=torch.Generator().manual_seed(0)), torch.tensor([2, 2, 2]), 4)
    assert probe.cross_validation is None
    assert probe.logits(100 * torch.randn(20, 6)).argmax(-1).tolist() == [2] * 20


def test_cross_validation_chooses_the_penalty_and_reports_the_accuracy() -> None:
    features, class_ids = make_features(7, 4, 20, spread=1.5)
    x, y = features.double().numpy(), class_ids.numpy()
    splits = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = {c: cross_val_score(LogisticRegression(C=c, max_iter=5000), x, y, cv=splits).mean() for c in STRENGTHS}
    probe = fit_probe(features, class_ids, 4)
    assert probe.strength == max(scores, key=lambda c: scores[c])
    assert probe.cross_validation == pytest.approx(scores[probe.strength])
    assert 0.3 < scores[probe.strength] < 1  # neither chance nor perfect, or the test would show nothing


def test_the_same_features_give_the_same_probe() -> None:
    """Bit for bit: a resumed run fits it again, and tests of runs share what they fitted."""
    one, two = (fit_probe(*make_features(4, 4, 64), num_classes=4) for _ in range(2))
    assert (one.strength, one.cross_validation) == (two.strength, two.cross_validation)
    assert torch.equal(one.weight, two.weight)
    assert torch.equal(one.bias, two.bias)


def test_with_one_label_in_a_class_there_is_nothing_to_leave_out() -> None:
    features, class_ids = make_features(3, 3, 10)
    probe = fit_probe(features[2:], class_ids[2:], 3)  # one image of class 0
    assert (probe.strength, probe.cross_validation) == (1.0, None)


def test_the_folds_are_no_more_than_the_labels_of_a_class() -> None:
    features, class_ids = make_features(2, 3, 10, spread=0.1)
    assert fit_probe(features, class_ids, 3).cross_validation == 1.0


def test_logits_are_affine() -> None:
    probe = Probe(torch.tensor([[1.0, 2.0], [0.0, -1.0]]), torch.tensor([0.5, 0.0]), 1.0, None)
    assert probe.logits(torch.tensor([[3.0, 4.0]], dtype=torch.float64)).tolist() == [[11.5, -4.0]]


@pytest.mark.parametrize(("images", "size"), [(12, 30), (40, 8)])
def test_the_embedding_is_a_ridge_regression_of_the_label_vectors(images: int, size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(images, size, generator=generator)
    targets = features @ torch.randn(size, 4, generator=generator) + 0.5 * torch.randn(images, 4, generator=generator)
    weight, bias = fit_embedding(features, targets)
    assert (weight.shape, bias.shape) == ((4, size), (4,))
    x, y = features.double().numpy(), targets.double().numpy()

    def left_out_error(alpha: float) -> float:
        """Mean squared error on images that were left out one by one."""
        errors = [
            Ridge(alpha=alpha).fit(np.delete(x, i, 0), np.delete(y, i, 0)).predict(x[i : i + 1])[0] - y[i]
            for i in range(images)
        ]
        return float(np.square(errors).mean())

    best = Ridge(alpha=min(PENALTIES, key=left_out_error)).fit(x, y)
    np.testing.assert_allclose(weight.numpy(), best.coef_, atol=1e-4)
    np.testing.assert_allclose(bias.numpy(), best.intercept_, atol=1e-4)


def test_outputs_of_a_semantic_head_get_a_length_and_keep_their_directions() -> None:
    weight, bias = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0.0, 1.0])
    features = torch.tensor([[3.0, 1.5], [0.0, 0.0]])  # outputs (3, 4) and (0, 1): lengths 5 and 1
    longer = with_embedding_length(weight, bias, features)
    expected = EMBEDDING_LENGTH / 13**0.5  # the mean square of 5 and 1 is 13
    torch.testing.assert_close(longer, (expected * weight, expected * bias))
    nothing = with_embedding_length(torch.zeros(2, 2), torch.zeros(2), features)
    assert all(torch.equal(each, torch.zeros_like(each)) for each in nothing)


@pytest.mark.parametrize(("has_length", "is_stable"), [(True, True), (False, False)])
def test_the_first_steps_do_not_destroy_a_semantic_head(has_length: bool, is_stable: bool) -> None:
    """Features as large as those of an ImageNet network, and the learning rate of the one-hot head."""
    features, class_ids = make_features(5, 8, 200)
    features = features - features.min()
    features *= (56 / features.mean(dim=0).square().sum()).sqrt()  # largest eigenvalue of efficientnet-lite0 on birds
    vectors = torch.nn.functional.normalize(torch.randn(8, 16, generator=torch.Generator().manual_seed(1)), dim=1)
    fitted = fit_embedding(features, vectors[class_ids])
    weight, bias = (each.clone() for each in (with_embedding_length(*fitted, features) if has_length else fitted))
    trained = [weight.requires_grad_(), bias.requires_grad_()]
    optimiser = torch.optim.SGD(trained, lr=PRETRAINED_HEADS["heads"], momentum=0.9, nesterov=True)
    losses = []
    for _ in range(20):
        loss = 3 * cosine_loss(features @ weight.T + bias, vectors[class_ids]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert (max(losses) <= 1.01 * losses[0]) is is_stable, losses
