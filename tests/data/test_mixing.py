"""Mixup and CowMask's masks: distributions, hand-computed mixtures, a slow smoothing."""

from __future__ import annotations

from statistics import NormalDist

import pytest
import torch

from semco.data.mixing import beta_weights, cow_masks, gaussian_matrix, mix, mixmatch_mixup, permutation

NONE = torch.zeros(0)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("alpha", [0.2, 0.75, 1.0, 4.0])
def test_moments_of_the_weights(alpha: float) -> None:
    weights = beta_weights(100_000, alpha, NONE.double(), seeded())
    assert float(weights.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(weights.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.03)


def test_tiny_alpha_is_either_image() -> None:
    weights = beta_weights(1000, 1e-6, NONE, seeded())
    assert set(weights.tolist()) == {0.0, 1.0}
    assert 400 < float(weights.sum()) < 600
    assert beta_weights(3, 0.0, NONE, seeded()).tolist() == [1, 1, 1]


def test_draws_follow_the_generator_alone() -> None:
    def draws(seed: int) -> list[float]:
        generator = seeded(seed)
        return torch.cat([beta_weights(4, 1.0, NONE, generator) for _ in range(2)]).tolist()

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)
    assert len(set(draws(1))) == 8  # the second call goes on where the first ended
    assert sorted(permutation(9, torch.device("cpu"), seeded()).tolist()) == list(range(9))


def test_mix_by_hand() -> None:
    first, second = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])
    assert mix(first, second, torch.tensor([0.25, 1.0])).tolist() == [[4.0, 5.0], [3.0, 4.0]]
    assert mix(first, second, torch.tensor([0.5])).tolist() == [[3.0, 4.0], [5.0, 6.0]]
    pixels = torch.tensor([[[[1.0, 0.0]]]])
    mixed = mix(torch.tensor([[[[1.0, 2.0]], [[3.0, 4.0]]]]), torch.zeros(1, 2, 1, 2), pixels)
    assert mixed.tolist() == [[[[1.0, 0.0]], [[3.0, 0.0]]]]


def test_mixmatch_mixup_keeps_images_and_targets_together() -> None:
    """Images whose pixels count from 0 and one-hot targets: both tell partner and weight, and agree."""
    n = 50
    images = torch.eye(n)[:, :, None, None].expand(n, n, 2, 2).contiguous()
    mixed, targets = mixmatch_mixup(images, torch.eye(n), 0.75, seeded())
    torch.testing.assert_close(mixed[:, :, 0, 0], targets)
    torch.testing.assert_close(targets.sum(dim=1), torch.ones(n))
    own = targets.diagonal()
    assert float(own.min()) >= 0.5  # lambda' = max(lambda, 1 - lambda)
    assert 0.6 < float(own.mean()) < 0.95
    partners = (targets - torch.diag(own)).sum(dim=0)  # each image is partner once
    assert int((partners > 0).sum()) > 0.8 * n


def test_mixmatch_mixup_without_mixing() -> None:
    images, targets = torch.randn(5, 3, 2, 2, generator=seeded()), torch.eye(5)
    for alpha in (0.0, 1e-6):
        mixed, mixed_targets = mixmatch_mixup(images, targets, alpha, seeded())
        torch.testing.assert_close(mixed, images)
        torch.testing.assert_close(mixed_targets, targets)


def test_mixed_images_carry_no_gradient() -> None:
    images = torch.randn(4, 3, 2, 2, requires_grad=True)
    assert not mixmatch_mixup(images, torch.eye(4), 1.0, seeded())[0].requires_grad


def test_smoothing_against_a_loop() -> None:
    sigma, size = 1.5, 5
    noise = torch.randn(1, size, size, generator=seeded(), dtype=torch.float64)
    matrix = gaussian_matrix(size, torch.full((1, 1, 1), sigma, dtype=torch.float64))
    smooth = (matrix @ noise @ matrix)[0]
    density = NormalDist(0.0, sigma).pdf
    for y in range(size):
        for x in range(size):
            cells = [(i, j) for i in range(size) for j in range(size)]
            slow = sum(density(y - i) * density(x - j) * float(noise[0, i, j]) for i, j in cells)
            assert float(smooth[y, x]) == pytest.approx(slow)


def test_cow_masks_have_the_proportion_asked_for() -> None:
    images = torch.zeros(400, 3, 32, 24)
    for proportion in (0.2, 0.5, 0.8):
        masks = cow_masks(images, (1.0, 4.0), (proportion, proportion), seeded())
        assert masks.shape == (400, 1, 32, 24)
        assert set(masks.unique().tolist()) == {0.0, 1.0}
        assert float(masks.mean()) == pytest.approx(proportion, abs=0.02)
    means = cow_masks(images, (4.0, 16.0), (0.2, 0.8), seeded()).mean(dim=(1, 2, 3))
    assert float(means.min()) < 0.3
    assert float(means.max()) > 0.7


def test_larger_sigma_gives_larger_patches() -> None:
    def borders(sigma: float) -> float:
        masks = cow_masks(torch.zeros(50, 1, 32, 32), (sigma, sigma), (0.5, 0.5), seeded())
        return float((masks[..., 1:] != masks[..., :-1]).float().mean())

    assert borders(1.0) > 2 * borders(4.0) > 0


def test_threshold_is_a_normal_quantile() -> None:
    """With sigma far below a pixel the noise stays as it is, so p ones need the p-quantile of its own values."""
    masks = cow_masks(torch.zeros(1, 1, 200, 200), (0.05, 0.05), (0.3, 0.3), seeded())
    assert float(masks.mean()) == pytest.approx(0.3, abs=0.01)
