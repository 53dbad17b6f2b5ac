"""scripts/emulate_bfloat16.py: convolutions as CPUs with bfloat16 compute them."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from tests.conftest import load_script

IMAGES = torch.randn(4, 6, 9, 9, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("emulate_bfloat16")


@pytest.fixture(params=[{"stride": 2, "padding": 1}, {"groups": 3, "dilation": 2}])
def layer(request: pytest.FixtureRequest) -> nn.Conv2d:
    torch.manual_seed(1)
    return nn.Conv2d(6, 12, 3, bias=False, **request.param)


def test_the_outputs_are_those_of_torch(script: ModuleType, layer: nn.Conv2d) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        expected = layer(IMAGES)
        found = script.convolve(layer, IMAGES, layer.weight, None)
    assert found.dtype == torch.bfloat16
    # products of bfloat16 are exact in float32; only their sums may be rounded in another order
    torch.testing.assert_close(found, expected, rtol=2**-7, atol=1e-4)
    assert (found == expected).float().mean() > 0.99


def test_the_gradients_are_rounded_once(script: ModuleType, layer: nn.Conv2d) -> None:
    """They equal those of a convolution in float32 of rounded inputs, rounded to bfloat16."""

    def gradients(images: Tensor, weight: Tensor, emulated: bool) -> tuple[Tensor, ...]:
        leaves = images.clone().requires_grad_(), weight.detach().clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=emulated):
            outputs = script.convolve(layer, *leaves, None)
        above = torch.arange(outputs.numel()).view_as(outputs).sin().to(torch.bfloat16).to(outputs.dtype)
        return torch.autograd.grad(outputs, leaves, above)

    found = gradients(IMAGES, layer.weight, emulated=True)
    expected = gradients(script.rounded(IMAGES), script.rounded(layer.weight), emulated=False)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, script.rounded(other))


def test_without_autocast_nothing_changes(script: ModuleType, layer: nn.Conv2d) -> None:
    assert torch.equal(script.convolve(layer, IMAGES, layer.weight, None), layer(IMAGES))


def test_other_convolutions_are_refused(script: ModuleType) -> None:
    other = nn.Conv2d(6, 6, 3, padding="same", bias=False)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(NotImplementedError, match="padding by name"):
        script.convolve(other, IMAGES, other.weight, None)
