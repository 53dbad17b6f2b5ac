"""The first weights of a semantic head: the same answer as plain scikit-learn, with a length that training survives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from semco.experiment.initial import EMBEDDING_LENGTH, PENALTIES, fit_embedding, with_embedding_length
from semco.losses import cosine_loss
from semco.resolve.rules import PRETRAINED_HEADS
from tests.methods.test_linear_probe import make_features


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
