"""The warmed-up batch norm against torch's own."""

from __future__ import annotations

import torch
from torch import nn

from semco.models.normalisation import Norm, WarmBatchNorm2d, norm_layer


def images(seed: int = 0) -> torch.Tensor:
    return 3.0 + 2.0 * torch.randn(6, 4, 5, 5, generator=torch.Generator().manual_seed(seed))


def test_equals_torch_once_warm() -> None:
    ours, torchs = WarmBatchNorm2d(4, momentum=0.1), nn.BatchNorm2d(4, momentum=0.1)
    with torch.no_grad():
        ours.weight.copy_(torch.tensor([1.0, 2.0, -1.0, 0.5]))
        torchs.weight.copy_(ours.weight)
    ours.num_batches_tracked.fill_(90)  # 9 / (9 + 91) < 0.1
    x, y = images().requires_grad_(), images().requires_grad_()
    assert torch.equal(ours(x), torchs(y))
    ours(x).pow(3).sum().backward()
    torchs(y).pow(3).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(ours.running_mean, torchs.running_mean)
    torch.testing.assert_close(ours.running_var, torchs.running_var)
    torch.testing.assert_close(ours.eval()(images(1)), torchs.eval()(images(1)))


def test_running_mean_follows_the_warm_up_rule() -> None:
    layer = WarmBatchNorm2d(1, momentum=0.001)
    expected = 0.0
    for n in range(1, 6):
        batch = torch.full((2, 1, 2, 2), float(n)) + torch.tensor([-1.0, 1.0]).view(2, 1, 1, 1)
        layer(batch)
        weight = 9 / (9 + n)
        expected = (1 - weight) * expected + weight * n
    assert layer.running_mean is not None
    assert layer.num_batches_tracked is not None
    assert abs(float(layer.running_mean) - expected) < 1e-5
    assert int(layer.num_batches_tracked) == 5


def test_500_updates_at_momentum_a_thousandth_forget_the_start() -> None:
    layer = WarmBatchNorm2d(4, momentum=0.001)
    for step in range(500):
        layer(images(step % 7))
    assert layer.running_mean is not None
    assert layer.running_var is not None
    torch.testing.assert_close(layer.running_mean, torch.full((4,), 3.0), atol=0.3, rtol=0)
    torch.testing.assert_close(layer.running_var, torch.full((4,), 4.0), atol=0.8, rtol=0)


def test_momentum_zero_leaves_statistics_alone() -> None:
    layer = WarmBatchNorm2d(4, momentum=0.0)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    out = layer(images())
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())
    torch.testing.assert_close(out.mean(dim=(0, 2, 3)), torch.zeros(4), atol=1e-5, rtol=0)


def test_state_is_interchangeable_with_torchs() -> None:
    layer = nn.BatchNorm2d(4)
    WarmBatchNorm2d(4, momentum=0.1).load_state_dict(layer.state_dict())


def test_none_is_nothing() -> None:
    assert isinstance(norm_layer(Norm("none"), 4, 0.1), nn.Identity)


def test_without_warmup_it_is_torchs_batch_norm() -> None:
    ours, torchs = norm_layer(Norm(warmup=False), 4, 0.001), nn.BatchNorm2d(4, momentum=0.001)
    for seed in range(3):
        assert torch.equal(ours(images(seed)), torchs(images(seed)))
    torch.testing.assert_close(ours.running_mean, torchs.running_mean)
    torch.testing.assert_close(ours.running_var, torchs.running_var)
    assert float(ours.running_mean[0]) < 0.02  # three updates of momentum 0.001 towards a mean of 3
