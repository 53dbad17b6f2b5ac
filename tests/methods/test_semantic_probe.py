"""The arithmetic of the semantic probe against slow, independent versions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from semco.methods import semantic_probe as probe
from semco.methods.semantic_probe import (
    FAR,
    Floats,
    Prior,
    SemanticProbe,
    SemanticProbeConfig,
    familiar_rows,
    fit_with_prior,
    information_gradient,
    label_offset,
    logistic_regression,
    pool_shares,
    principal_axes,
    prior_factor,
    shares_by_em,
    solve,
)
from semco.models.transform import FeatureTransform, root
from semco.types import Task
from tests.methods.test_fitted import Held, make_views

CLASSES, AXES = 4, 6
EQUAL = torch.full((CLASSES,), 1 / CLASSES)


def make_problem() -> tuple[Tensor, Tensor, Tensor, Prior]:
    """Labelled rows (12, D), their classes, a pool (50, D) and a prior."""
    generator = torch.Generator().manual_seed(0)
    x, pool = (normalize(torch.randn(n, AXES, generator=generator), dim=1) for n in (12, 50))
    factor = prior_factor(torch.randn(CLASSES, 5, generator=generator), 1.5)
    mean = torch.randn(AXES, CLASSES, generator=generator).double().numpy()
    return x, torch.arange(12) % CLASSES, pool, Prior(factor, mean)


def flat_prior(size: int, classes: int, deviation: float = 1.0) -> Prior:
    """The weights of the classes are independent, and their mean is 0."""
    return Prior(deviation * np.eye(classes), np.zeros((size, classes)))


def test_the_transform_is_a_root_and_a_principal_component_analysis() -> None:
    views, _ = make_views(40, seed=0)
    mean, axes = principal_axes(Held(views), most=5)
    roots = normalize(views.sqrt().sum(dim=1), dim=1)
    torch.testing.assert_close(root(views), roots)
    torch.testing.assert_close(root(-views), -roots)
    reference = PCA(5, svd_solver="full").fit(roots.double().numpy())
    signs = np.sign((axes.numpy().T * reference.components_).sum(axis=1))
    np.testing.assert_allclose(axes.numpy().T * signs[:, None], reference.components_, atol=1e-4)
    expected = normalize(torch.from_numpy(reference.transform(roots.double().numpy()) * signs).float(), dim=1)
    torch.testing.assert_close(FeatureTransform(mean, axes, has_close_up=True)(views), expected, atol=1e-4, rtol=1e-4)


def test_there_are_no_more_axes_than_the_photos_span() -> None:
    views, _ = make_views(5, seed=0)
    assert principal_axes(Held(views), most=300)[1].shape == (12, 4)
    same = views[:1].expand(3, -1, -1)
    assert principal_axes(Held(same), most=300)[1].shape == (12, 1)  # nothing varies, but a head has an input


def test_the_prior_makes_weights_of_similar_classes_alike() -> None:
    vectors = torch.tensor([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.0]])
    s = normalize(vectors - vectors.mean(dim=0), dim=1).double()
    factor = prior_factor(vectors, 1.5)
    np.testing.assert_allclose(factor @ factor.T, np.eye(3) + 1.5 * (s @ s.T).numpy(), atol=1e-12)
    assert (factor @ factor.T)[0, 1] > 0 > (factor @ factor.T)[0, 2]
    np.testing.assert_allclose(prior_factor(vectors, 0.0) @ prior_factor(vectors, 0.0).T, np.eye(3), atol=1e-12)


def test_without_a_prior_it_is_logistic_regression() -> None:
    x, class_ids, _, _ = make_problem()
    a, b = logistic_regression(x.double().numpy(), class_ids.numpy(), flat_prior(AXES, CLASSES), penalty=0.5)
    model = LogisticRegression(C=2.0, tol=1e-8, max_iter=1000).fit(x.double().numpy(), class_ids.numpy())
    np.testing.assert_allclose(a.T - a.T.mean(axis=0), model.coef_, atol=2e-3)
    np.testing.assert_allclose(b - b.mean(), model.intercept_ - model.intercept_.mean(), atol=2e-3)


def test_with_a_strong_penalty_the_weights_are_those_of_the_prior() -> None:
    x, class_ids, _, prior = make_problem()
    weight = np.arange(AXES * CLASSES, dtype=float).reshape(AXES, CLASSES)
    a, _ = logistic_regression(x.double().numpy(), class_ids.numpy(), Prior.of(prior.factor, weight), penalty=1e6)
    np.testing.assert_allclose(a @ prior.factor.T, weight, atol=1e-4)


def test_the_gradient_of_the_mutual_information_is_that_of_autograd() -> None:
    logits = torch.randn(7, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    log_p = logits.log_softmax(dim=1)
    p, mean = log_p.exp(), log_p.exp().mean(dim=0)
    shares = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    loss = -0.2 * (p * log_p).sum(dim=1).mean() + 0.3 * (mean * (mean / shares).log()).sum()
    (expected,) = torch.autograd.grad(loss, logits)
    found = information_gradient(p.detach(), mean.detach() / shares, 0.2, 0.3)
    torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)


def test_the_steps_are_those_of_torch() -> None:
    x, class_ids, pool, prior = make_problem()
    config = SemanticProbeConfig()
    start = logistic_regression(x.double().numpy(), class_ids.numpy(), prior, config.penalty)
    shares = torch.tensor([0.1, 0.2, 0.3, 0.4])
    head = solve(x, class_ids, pool, prior, shares, start, config)
    factor, mean_a = (torch.from_numpy(each).float() for each in prior)
    a, b = (torch.tensor(each, dtype=torch.float32, requires_grad=True) for each in start)
    optimiser = torch.optim.Adam([a, b], lr=probe.RATE)
    for _ in range(probe.STEPS):
        weight = a @ factor.T
        log_p = (pool @ weight + b + (4 * shares).log()).log_softmax(dim=1)
        mean = log_p.exp().mean(dim=0)
        loss = cross_entropy(x @ weight + b, class_ids) + config.penalty / (2 * len(x)) * (a - mean_a).square().sum()
        loss = loss - config.sure * (log_p.exp() * log_p).sum(dim=1).mean()
        loss = loss + config.diverse * (mean * (mean / shares).log()).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    torch.testing.assert_close(head.weight, (a @ factor.T).T.detach(), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(head.bias, b.detach(), atol=1e-3, rtol=1e-3)


def test_a_large_pool_in_batches_gives_nearly_the_same_head(monkeypatch: pytest.MonkeyPatch) -> None:
    x, class_ids, _, prior = make_problem()
    pool = normalize(torch.randn(4000, AXES, generator=torch.Generator().manual_seed(2)), dim=1)
    start = logistic_regression(x.double().numpy(), class_ids.numpy(), prior, 0.05)
    arguments = x, class_ids, pool, prior, EQUAL, start, SemanticProbeConfig()
    whole = solve(*arguments)
    monkeypatch.setattr(probe, "BATCH", 500)
    batches = solve(*arguments)
    same = (whole.logits(pool).argmax(dim=1) == batches.logits(pool).argmax(dim=1)).float().mean()
    assert not torch.equal(whole.weight, batches.weight)
    assert float(same) > 0.95


def test_without_a_pool_it_is_the_logistic_regression() -> None:
    x, class_ids, pool, prior = make_problem()
    start = logistic_regression(x.double().numpy(), class_ids.numpy(), prior, 0.05)
    head = solve(x, class_ids, pool[:0], prior, EQUAL, start, SemanticProbeConfig())
    np.testing.assert_allclose(head.weight.numpy(), prior.factor @ start[0].T, atol=1e-5)


def test_rows_of_no_class_by_hand() -> None:
    def at(degrees: list[float]) -> Tensor:
        angles = torch.tensor(degrees).deg2rad()
        return torch.stack([angles.cos(), angles.sin()], dim=1)

    # Without its own label, the labels are 6, 0 and 6 degrees from the mean of its class.
    x, class_ids = at([0, 4, 8, 90, 94, 98]), torch.tensor([0, 0, 0, 1, 1, 1])
    near, far = torch.tensor([0.0, 6.0]).deg2rad().cos().tolist()
    known = torch.tensor([far, near, far] * 2)
    most = torch.rad2deg((known.mean() - FAR * known.std()).arccos()).item()  # from the mean of a class: 4 or 94
    pool = at([4 + most - 0.1, 4 + most + 0.1, 200.0, 94 + most - 0.1, 94 + most + 0.1])
    torch.testing.assert_close(familiar_rows(x, class_ids, pool, 2), pool[[0, 3]])
    torch.testing.assert_close(familiar_rows(x[:4], class_ids[:4], pool, 2), pool)  # a class has only one label
    torch.testing.assert_close(familiar_rows(x, class_ids, pool, 3), pool)  # or none


def test_photos_of_no_class_change_nothing() -> None:
    x, class_ids, pool, _ = make_problem()
    x, pool = (torch.nn.functional.pad(rows, (0, 1), value=1.0) for rows in (x, pool))
    foreign = torch.zeros(30, AXES + 1)
    foreign[:, -1] = -1.0
    task = Task(tuple("abcd"), torch.eye(CLASSES), torch.arange(CLASSES), torch.full((CLASSES,), 3), len(pool))
    method = SemanticProbe(SemanticProbeConfig(), task)
    found, expected = (method.fit(x, class_ids, each) for each in (torch.cat([foreign, pool]), pool))
    torch.testing.assert_close(found.weight, expected.weight)
    without = method.fit(x, class_ids, pool[:0])
    assert (found.weight - without.weight).abs().max() > 0.1  # the pool is used


def test_heads_with_and_without_the_names_are_averaged_unless_there_are_attributes() -> None:
    x, class_ids, pool, _ = make_problem()
    vectors = torch.randn(CLASSES, 5, generator=torch.Generator().manual_seed(7))
    names = tuple(map(str, range(CLASSES)))
    task = Task(names, vectors, torch.arange(CLASSES), torch.full((CLASSES,), 3), len(pool))
    hedged = SemanticProbe(SemanticProbeConfig(), task).fit(x, class_ids, pool)
    known = SemanticProbe(SemanticProbeConfig(), replace(task, has_attributes=True)).fit(x, class_ids, pool)
    alone = fit_with_prior(x, class_ids, pool, flat_prior(AXES, CLASSES, np.sqrt(3)), SemanticProbeConfig())
    logits = (known.logits(pool) / probe.SHARPER + alone.logits(pool)) / 2
    torch.testing.assert_close(hedged.logits(pool), logits)
    unhedged = SemanticProbe(SemanticProbeConfig(hedge=False), task).fit(x, class_ids, pool)
    torch.testing.assert_close(probe.SHARPER * unhedged.weight, known.weight)


def test_a_class_whose_vector_is_the_mean_of_all_shares_nothing() -> None:
    factor = prior_factor(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]), 2.0)
    np.testing.assert_allclose((factor @ factor.T)[2], [0, 0, 1], atol=1e-12)


def test_shares_of_certain_answers_are_their_counts() -> None:
    logits = np.array([[50.0, 0.0], [50.0, 0.0], [50.0, 0.0], [0.0, 50.0]])
    np.testing.assert_allclose(shares_by_em(logits), [0.75, 0.25], atol=1e-4)


def test_shares_maximise_the_likelihood_of_the_pool() -> None:
    logits = np.random.default_rng(0).normal(size=(200, 2)) + np.array([0.5, 0.0])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    grid = np.linspace(0.001, 0.999, 999)
    likelihood = [np.log(p[:, 0] * share + p[:, 1] * (1 - share)).sum() for share in grid]
    assert abs(shares_by_em(logits, rounds=1000)[0] - grid[int(np.argmax(likelihood))]) < 0.003


def make_skewed(ratio: float) -> tuple[Floats, np.ndarray, Floats]:
    """Two classes around (1, 0) and (0, 1): five labels of each, and 200 photos of which ``ratio`` are of the first."""
    rng, centres = np.random.default_rng(3), np.eye(2)
    class_ids, truth = np.arange(10) % 2, (np.arange(200) >= 200 * ratio).astype(int)
    x, pool = (centres[each] + 0.1 * rng.normal(size=(len(each), 2)) for each in (class_ids, truth))
    return x, class_ids, pool


def test_the_shares_of_a_skewed_pool_are_found() -> None:
    x, class_ids, pool = make_skewed(0.9)
    start = logistic_regression(x, class_ids, flat_prior(x.shape[1], 2), 0.05)
    assert abs(pool_shares(x, class_ids, pool, flat_prior(x.shape[1], 2), start, 0.05)[0] - 0.9) < 0.05


def test_shares_that_depend_on_single_labels_are_nearer_to_equal_ones() -> None:
    """Labels that say nothing: what is found without some of them differs from what all say."""
    rng = np.random.default_rng(5)
    x, pool, class_ids = rng.normal(size=(10, 8)), rng.normal(size=(200, 8)), np.arange(10) % 2
    start = logistic_regression(x, class_ids, flat_prior(x.shape[1], 2), 0.05)
    found, shares = (
        shares_by_em(pool @ start[0] + start[1]),
        pool_shares(x, class_ids, pool, flat_prior(x.shape[1], 2), start, 0.05),
    )
    assert 0 <= shares[0] - 0.5 < 0.8 * (found[0] - 0.5)


def test_a_skewed_pool_does_not_move_the_border() -> None:
    x, class_ids, pool = make_skewed(0.95)
    tensors = (torch.from_numpy(each).float() for each in (x, pool))
    labelled, unlabelled = tensors
    head = fit_with_prior(labelled, torch.from_numpy(class_ids), unlabelled, flat_prior(2, 2), SemanticProbeConfig())
    assert int((head.logits(unlabelled).argmax(dim=1) == 0).sum()) == 190


def test_the_offset_of_labels_by_hand() -> None:
    np.testing.assert_allclose(label_offset(np.array([0, 1, 1, 1]), 2), np.log([0.5, 1.5]))
    np.testing.assert_allclose(label_offset(np.array([0, 1]), 3), np.log([1.2, 1.2, 0.6]))
    assert not label_offset(np.array([0, 1, 2, 2, 1, 0]), 3).any()


def test_unequal_labels_do_not_make_an_equal_pool_look_skewed() -> None:
    """Two labels of one class and twelve of the other; half of the pool is of each."""
    rng, centres = np.random.default_rng(3), np.eye(2)
    class_ids, truth = np.array([0] * 2 + [1] * 12), np.arange(200) % 2
    x, pool = (centres[each] + 0.3 * rng.normal(size=(len(each), 2)) for each in (class_ids, truth))
    start = logistic_regression(x, class_ids, flat_prior(2, 2), 1.0)
    found = shares_by_em(pool @ start[0] + start[1])
    assert found[0] < 0.4
    assert abs(pool_shares(x, class_ids, pool, flat_prior(2, 2), start, 1.0)[0] - 0.5) < 0.05


def test_with_one_label_of_a_class_shares_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "pool_shares", None)  # not called
    x, _, pool = make_skewed(0.9)
    rows, unlabelled = (torch.from_numpy(each).float() for each in (x[:5], pool))
    own = torch.tensor([0, 0, 0, 0, 1])
    fit_with_prior(rows, own, unlabelled, flat_prior(2, 2), SemanticProbeConfig())


def test_shares_of_many_classes_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "MOST_ESTIMATED", 3)
    monkeypatch.setattr(probe, "pool_shares", None)  # not called
    x, class_ids, pool, prior = make_problem()
    fit_with_prior(x, class_ids, pool, prior, SemanticProbeConfig())


def test_shares_do_not_depend_on_the_order_of_a_large_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder lists its photos class after class: the first ones alone would look like a pool of one class."""
    monkeypatch.setattr(probe, "BATCH", 50)
    found: list[Tensor] = []
    monkeypatch.setattr(probe, "solve", lambda *arguments: found.append(arguments[4]))
    rng, centres = np.random.default_rng(3), np.eye(2)
    class_ids, truth = np.arange(10) % 2, np.arange(400) // 200
    x, pool = (centres[each] + 0.1 * rng.normal(size=(len(each), 2)) for each in (class_ids, truth))
    rows, unlabelled = (torch.from_numpy(each).float() for each in (x, pool))
    fit_with_prior(rows, torch.from_numpy(class_ids), unlabelled, flat_prior(2, 2), SemanticProbeConfig())
    torch.testing.assert_close(found[0], torch.full((2,), 0.5), atol=0.05, rtol=0)
