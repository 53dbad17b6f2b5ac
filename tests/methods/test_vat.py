"""VAT: its direction against the eigenvectors of the Hessian, its losses by hand, what its passes leave alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scripted import ScriptedForward, at, make_batch, make_task
from torch import Tensor

from semco.losses import kl_divergence
from semco.methods.vat import VAT, VATConfig, adversarial_direction, unit

GENERATOR = torch.Generator().manual_seed(0)
SHAPE = (3, 2, 2, 2)  # three images of eight numbers
IMAGES = torch.randn(SHAPE, generator=GENERATOR, dtype=torch.float64)
START = torch.randn(SHAPE, generator=GENERATOR, dtype=torch.float64)
WEIGHT = torch.randn(8, 4, generator=GENERATOR, dtype=torch.float64)
Make = Callable[..., "object"]


def predict(images: Tensor) -> Tensor:
    return images.flatten(1) @ WEIGHT


def hessian(image: Tensor) -> Tensor:
    """Of r -> KL(p(x) || p(x + r)) at r = 0 for linear logits: W (diag(p) - p p^T) W^T, (8, 8)."""
    p = predict(image[None]).softmax(dim=-1)[0]
    return WEIGHT @ (torch.diag(p) - torch.outer(p, p)) @ WEIGHT.T


def test_the_hessian_is_that_of_the_divergence() -> None:
    slow = torch.autograd.functional.hessian(
        lambda r: kl_divergence(predict(IMAGES[:1]), predict(IMAGES[:1] + r.view(1, *SHAPE[1:]))).sum(),
        torch.zeros(8, dtype=torch.float64),
    )
    torch.testing.assert_close(slow, hessian(IMAGES[0]))


def test_one_iteration_multiplies_by_the_hessian() -> None:
    found = adversarial_direction(IMAGES, predict(IMAGES), predict, START, xi=1e-6, iterations=1)
    for image, start, direction in zip(IMAGES, START, found, strict=True):
        expected = hessian(image) @ start.flatten()
        torch.testing.assert_close(direction.flatten(), expected / expected.norm(), rtol=1e-4, atol=1e-5)


def test_many_iterations_find_the_leading_eigenvector() -> None:
    """The direction of unit length along which the quadratic approximation of the divergence is greatest."""
    found = adversarial_direction(IMAGES, predict(IMAGES), predict, START, xi=1e-6, iterations=60)
    for image, direction in zip(IMAGES, found, strict=True):
        leading = torch.linalg.eigh(hessian(image)).eigenvectors[:, -1]
        assert abs(float(direction.flatten() @ leading)) == pytest.approx(1.0, abs=1e-4)


def test_it_beats_random_directions() -> None:
    found = adversarial_direction(IMAGES, predict(IMAGES), predict, START, xi=1e-3, iterations=2)
    length = 0.05

    def divergence(direction: Tensor) -> Tensor:
        return kl_divergence(predict(IMAGES), predict(IMAGES + length * direction))

    random = [unit(torch.randn(SHAPE, generator=GENERATOR, dtype=torch.float64)) for _ in range(50)]
    assert all(bool((divergence(found) > divergence(other)).all()) for other in random)


def test_losses_by_hand() -> None:
    # Images of 8 values, not 3,072: the perturbation is shorter, here 0.5.
    config = VATConfig(epsilon=0.5 * math.sqrt(384), xi=0.1, iterations=2, lambda_u=0.7, lambda_entropy=0.3)
    forward = ScriptedForward(predict)
    labelled = IMAGES[:1] + 1
    result = VAT(config, make_task(4)).compute(make_batch([2], labelled, [IMAGES]), forward, at(3, seed=5))
    start = torch.randn(SHAPE, generator=at(3, seed=5).generator).double()
    direction = adversarial_direction(IMAGES, predict(IMAGES), predict, start, 0.1, 2)
    torch.testing.assert_close(forward.seen["perturbed"], IMAGES + 0.5 * direction)
    assert torch.allclose((forward.seen["perturbed"] - IMAGES).flatten(1).norm(dim=1), torch.tensor(0.5).double())
    p, q = predict(IMAGES).softmax(-1), predict(IMAGES + 0.5 * direction).softmax(-1)
    expected = {
        "supervised": -float(predict(labelled).softmax(-1)[0, 2].log()),
        "smoothness": float((p * (p / q).log()).sum() / 3),
        "entropy": float(-(p * p.log()).sum() / 3),
    }
    assert {name: float(loss) for name, loss in result.losses.items()} == pytest.approx(expected)
    total = expected["supervised"] + 0.7 * expected["smoothness"] + 0.3 * expected["entropy"]
    assert float(result.total) == pytest.approx(total)


def test_the_clean_prediction_is_a_constant() -> None:
    """The gradient of the smoothness with respect to the weights is that with p held fixed."""
    weight = WEIGHT.clone().requires_grad_()
    forward = ScriptedForward(lambda v: v.flatten(1) @ weight)
    method = VAT(VATConfig(epsilon=0.5), make_task(4))
    method.compute(make_batch([2], IMAGES[:1], [IMAGES]), forward, at(0)).losses["smoothness"].backward()
    perturbed = forward.seen["perturbed"].flatten(1)
    p, q = predict(IMAGES).softmax(-1), (perturbed @ WEIGHT).softmax(-1)
    torch.testing.assert_close(weight.grad, perturbed.T @ (q - p) / 3)


def test_perturbed_passes_leave_running_statistics_alone(bench: Make, batch: Make) -> None:
    b = bench("vat", iterations=3)
    example = batch(b.method.views, 7)
    quiet = b.copy()
    with torch.no_grad():
        quiet.network(example.unlabelled.weak[0])
        quiet.network(example.labelled.weak[0])
    b.step(example)
    expected = dict(quiet.network.named_buffers())
    for name, buffer in b.network.named_buffers():
        torch.testing.assert_close(buffer, expected[name], msg=name)


def test_unit_of_the_tiny_and_of_nothing() -> None:
    vectors = torch.tensor([[3.0, 4.0], [3e-30, 4e-30], [0.0, 0.0]])[:, None, None]
    torch.testing.assert_close(unit(vectors)[:, 0, 0], torch.tensor([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]))
