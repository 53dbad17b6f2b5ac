"""The prior from the ImageNet classifier of a backbone: names, regression, scale, and a head that follows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor

from semco.data.names import wordnet_names
from semco.methods import imagenet_prior as prior
from semco.methods import semantic_probe as probe
from semco.methods.imagenet_prior import features_of_rows, likeliest_scale, prior_mean, similar_classes
from semco.methods.semantic_probe import SemanticProbe, SemanticProbeConfig, principal_axes
from semco.models import FeatureTransform
from semco.types import Task
from tests.methods.test_fitted import CLASSES, FEATURES, Held, make_views

NAMES = ("golden retriever", "pickup truck", "qwrtzpl")


def imagenet_class(name: str) -> int:
    return list(wordnet_names().values()).index(name)


def test_a_class_of_imagenet_is_found_and_trusted() -> None:
    weights = similar_classes(NAMES)
    assert weights.shape == (3, 1000)
    assert int(weights[0].argmax()) == imagenet_class("golden retriever")
    assert float(weights[0].sum()) == pytest.approx(1, abs=1e-5)


def test_a_similar_name_is_trusted_less_and_an_unknown_one_not_at_all() -> None:
    weights = similar_classes(NAMES)
    assert float(weights[1, [imagenet_class("minivan"), imagenet_class("pickup")]].sum()) > 0.5 * weights[1].sum()
    assert 0.2 < float(weights[1].sum()) < 0.9
    assert float(weights[2].abs().sum()) == 0


def make_transform(views: Tensor) -> FeatureTransform:
    return FeatureTransform(*principal_axes(Held(views), most=5), has_close_up=True)


def test_the_features_are_a_ridge_regression_on_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prior, "READ", 7)  # several parts
    views, _ = make_views(40, seed=0)
    transform = make_transform(views)
    mean_views = views.mean(dim=1).double().numpy()
    x = transform(views).double().numpy()
    model = Ridge(alpha=prior.RIDGE, fit_intercept=False).fit(x, mean_views - mean_views.mean(axis=0))
    np.testing.assert_allclose(features_of_rows(Held(views), transform).numpy(), model.coef_.T, atol=1e-4)


def test_no_more_photos_are_read_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prior, "MOST_READ", 3)
    views, _ = make_views(41, seed=0)
    transform = make_transform(views)
    some = features_of_rows(Held(views[[0, 20, 40]]), transform)
    torch.testing.assert_close(features_of_rows(Held(views), transform), some)


def test_the_scale_maximises_the_likelihood() -> None:
    """The reference: a logistic regression without penalty on the difference of two logits."""
    rng = np.random.default_rng(0)
    class_ids = np.arange(60) % 2
    logits = rng.normal(size=(60, 2)) + 1.0 * np.eye(2)[class_ids]
    difference = (logits[:, 1] - logits[:, 0])[:, None]
    model = LogisticRegression(C=1e9, fit_intercept=False).fit(difference, class_ids)
    assert 0.3 < model.coef_[0, 0] < prior.MOST_SCALE
    assert likeliest_scale(logits, class_ids) == pytest.approx(model.coef_[0, 0], abs=1e-3)


def test_logits_that_contradict_the_labels_have_no_scale() -> None:
    assert likeliest_scale(-np.eye(3), np.arange(3)) == 0


def test_the_mean_is_the_matched_logit_in_standard_units() -> None:
    """Two axes that are the features themselves; the class takes half of its trust from an ImageNet class."""
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    classifier = torch.tensor([[2.0, 0.0], [0.0, 7.0], [0.0, 0.0]])  # three classes of ImageNet
    similar = torch.tensor([[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    found = prior_mean(torch.eye(2), classifier, similar, x, torch.tensor([0, 1]), x[:0])
    # The logits of class 0 are 2 / 2 = 1 and 0, with deviation 0.5, so the unit is 2; times the trust, 1.
    scale = likeliest_scale(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([0, 1]))
    torch.testing.assert_close(found, scale * torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    assert scale > 0


@pytest.fixture
def known() -> Iterator[Task]:
    """A task whose classes an ImageNet classifier knows: its weights are the centres of the classes."""
    names = tuple(f"class {i}" for i in range(CLASSES))
    counts = torch.ones(CLASSES, dtype=torch.int64)
    task = Task(names, torch.eye(CLASSES), torch.arange(CLASSES), counts, 60, FEATURES, published="backbone")
    views, class_ids = make_views(400, seed=9, spread=0.1)
    centres = torch.stack([views[class_ids == c].mean(dim=(0, 1)) for c in range(CLASSES)])
    classifier = centres - centres.mean(dim=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "published_classifier", {"backbone": classifier}.__getitem__)
        patch.setattr(probe, "similar_classes", {names: torch.eye(CLASSES)}.__getitem__)
        yield task


def accuracy(task: Task, config: SemanticProbeConfig) -> float:
    (labelled, class_ids), (pool, _), (new, truth) = (make_views(n, i, 3.0) for i, n in enumerate((4, 60, 400)))
    method, photos = SemanticProbe(config, task), Held(torch.cat([labelled, pool]))
    transform = method.transform(photos)
    features = method.features(photos, transform)
    assert (features is None) == (not task.published or not config.classifier or task.has_attributes)
    head = method.fit(transform(labelled), class_ids, transform(pool), features)
    return float((head.logits(transform(new)).argmax(dim=1) == truth).float().mean())


def test_a_head_with_one_label_per_class_gains_from_the_classifier(known: Task) -> None:
    without = accuracy(known, SemanticProbeConfig(classifier=False))
    assert accuracy(known, SemanticProbeConfig()) > without + 0.05
    assert accuracy(replace(known, published=""), SemanticProbeConfig()) == without


def test_class_attributes_take_the_place_of_the_classifier(known: Task) -> None:
    attributes, config = replace(known, has_attributes=True), SemanticProbeConfig()
    assert accuracy(attributes, config) == accuracy(replace(attributes, published=""), config)
