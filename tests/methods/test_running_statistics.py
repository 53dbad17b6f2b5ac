"""Which images normalisation layers remember: those that the model will be asked about, which are not mixed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from semco.training.forward import NetworkForward

Make = Callable[..., "object"]


@pytest.mark.parametrize(
    ("name", "fields", "remembered"),
    [
        ("ict", {}, ["labelled"]),
        ("cowmask", {}, ["labelled"]),
        # What it says of images is asked before mixing. Without mixing, then the labelled images in another order.
        ("plcb", {"alpha": 0.0, "warm_up": 1.0}, ["unlabelled", "labelled"]),
    ],
)
def test_images_before_mixing_are_remembered(
    bench: Make, batch: Make, name: str, fields: dict[str, float], remembered: list[str]
) -> None:
    b = bench(name, **fields)
    example = batch(b.method.views, 7)
    quiet = b.copy()
    with torch.no_grad():
        for part in remembered:
            quiet.network(getattr(example, part).weak[0])
    b.forward = NetworkForward(b.network, b.forward.average)
    b.step(example)
    expected = dict(quiet.network.named_buffers())
    for buffer, value in b.network.named_buffers():
        torch.testing.assert_close(value, expected[buffer], msg=buffer)
