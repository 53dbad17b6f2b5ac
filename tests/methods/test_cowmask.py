"""CowMask: mixed images and their targets against a loop over pixels."""

from __future__ import annotations

import pytest
import torch
from scripted import ScriptedForward, at, make_batch, make_task

from semco.config import Config
from semco.data.mixing import cow_masks
from semco.errors import UserError
from semco.methods.cowmask import CowMask, CowMaskConfig

GENERATOR = torch.Generator().manual_seed(0)
SIDE, U = 16, 6
LABELLED, IMAGES = (torch.randn(n, 2, SIDE, SIDE, generator=GENERATOR, dtype=torch.float64) for n in (2, U))
STUDENT, TEACHER = (torch.randn(2 * SIDE * SIDE, 3, generator=GENERATOR, dtype=torch.float64) / 10 for _ in range(2))


def forward() -> ScriptedForward:
    return ScriptedForward(lambda v: v.flatten(1) @ STUDENT, teacher=lambda v: v.flatten(1) @ TEACHER)


def test_against_a_loop() -> None:
    scripted = forward()
    config = CowMaskConfig(tau=0.75)
    result = CowMask(config, make_task(3)).compute(make_batch([0, 1], LABELLED, [IMAGES]), scripted, at(0, seed=2))
    masks = cow_masks(IMAGES, (2.0, 8.0), (0.2, 0.8), at(0, seed=2).generator)  # for 32 pixels: 4 and 16
    teacher = (IMAGES.flatten(1) @ TEACHER).softmax(-1)
    squares, confident = 0.0, 0
    for i in range(U):
        j = (i + 1) % U
        mixed = IMAGES[i].clone()
        area = 0
        for y in range(SIDE):
            for x in range(SIDE):
                if masks[i, 0, y, x] == 1:
                    mixed[:, y, x] = IMAGES[j, :, y, x]
                    area += 1
        torch.testing.assert_close(scripted.seen["mixed"][i], mixed)
        part = area / SIDE**2
        target = (1 - part) * teacher[i] + part * teacher[j]
        squares += float(((mixed.flatten() @ STUDENT).softmax(-1) - target).square().sum())
        confident += float((1 - part) * teacher[i].max() + part * teacher[j].max()) > 0.75
    assert 0 < confident < U
    assert float(result.losses["consistency"]) == pytest.approx(squares / U * confident / U)
    assert float(result.metrics["confident"]) == pytest.approx(confident / U)
    assert result.weights["consistency"] == 30.0
    torch.testing.assert_close(result.pseudo_labels["one_hot"].class_ids, teacher.argmax(1))
    assert result.pseudo_labels["one_hot"].weights.tolist() == (teacher.max(1).values > 0.75).double().tolist()


def test_nobody_confident_is_supervised_training() -> None:
    result = CowMask(CowMaskConfig(tau=1.0), make_task(3)).compute(
        make_batch([0, 1], LABELLED, [IMAGES]), forward(), at(0)
    )
    assert float(result.losses["consistency"]) == 0.0
    expected = -(LABELLED.flatten(1) @ STUDENT).log_softmax(1)[[0, 1], [0, 1]].mean()
    assert float(result.total) == pytest.approx(float(expected))


def test_ranges_in_order() -> None:
    with pytest.raises(UserError, match=r"sigma_min = 0\.9 must not be above sigma_max = 0\.5"):
        Config.parse({"method": {"name": "cowmask", "sigma_min": 0.9}})
