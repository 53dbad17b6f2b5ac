"""The learning rate at hand-computed points."""

from __future__ import annotations

import math

import pytest

from semco.config import OptimConfig
from semco.training.schedule import learning_rate


def rates(schedule: str, total: int = 100, warmup: float = 0.1) -> list[float]:
    config = OptimConfig(warmup=warmup, schedule=schedule)
    return [learning_rate(config, step, total, 0.5, steps_per_epoch=20) for step in range(total)]


def test_warm_up_is_linear_and_reaches_the_full_rate() -> None:
    assert rates("cosine")[:10] == pytest.approx([0.05 * k for k in range(1, 11)])


def test_cosine_is_half_way_in_the_middle_and_nearly_zero_at_the_end() -> None:
    values = rates("cosine")
    assert values[10] == pytest.approx(0.5)
    assert values[55] == pytest.approx(0.25)
    assert values[99] == pytest.approx(0.25 * (1 + math.cos(math.pi * 89 / 90)))


def test_fixmatch_cosine_ends_at_a_fifth() -> None:
    config = OptimConfig(warmup=0.0, schedule="cosine_7_16")
    assert learning_rate(config, 0, 1000, 1.0, 100) == 1.0
    assert learning_rate(config, 1000, 1000, 1.0, 100) == pytest.approx(0.19509, abs=1e-5)


@pytest.mark.parametrize("epochs", [100, 300])
def test_a_warm_up_in_epochs_does_not_depend_on_the_length_of_the_run(epochs: int) -> None:
    config = OptimConfig(warmup_epochs=10)
    values = [learning_rate(config, step, epochs * 1024, 0.03, 1024) for step in (0, 5 * 1024 - 1, 10 * 1024)]
    assert values == pytest.approx([0.03 / 10240, 0.015, 0.03])


def test_constant_stays() -> None:
    assert set(rates("constant")[10:]) == {0.5}


def test_no_warm_up_starts_at_the_full_rate() -> None:
    assert rates("cosine", warmup=0.0)[0] == 0.5
