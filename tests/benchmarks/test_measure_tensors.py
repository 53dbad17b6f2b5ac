"""scripts/measure_tensors.py: bytes of the tensors that are alive at one time."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from benchmarks.step import QUICK
from tests.conftest import load_script


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("measure_tensors")


def test_the_peak_is_that_of_all_tensors_that_are_alive_together(script: ModuleType) -> None:
    with script.LiveTensors() as live:
        first = torch.zeros(1000)  # 4,000 bytes
        second = first + 1  # 8,000
        part = second[:10]  # no bytes of its own
        del first, second  # the part keeps all of the second: 4,000
        third = part.double()  # 4,080
        assert live.peak == 8000
        more = [torch.zeros(250) for _ in range(4)]  # 8,080
        del more, part  # 80
        torch.zeros(500) + third[0]  # 4,160: two tensors of 2,000 bytes, and the third with 80
    assert live.peak == 8080


def test_what_the_backward_pass_needs_counts(script: ModuleType) -> None:
    inputs = torch.zeros(1000, requires_grad=True)
    with script.LiveTensors() as live:
        for _ in range(3):
            inputs.exp().exp().sum().backward()
            inputs.grad = None
    # The inputs, both results of exp and the gradient of the second one; the sum and its gradient are one number each.
    assert live.peak == 4 * 4000 + 2 * 4


def test_a_step_is_measured(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    script.FULL = QUICK
    script.main(batch_size=2)
    authors, ours, bfloat16 = (int(line.split()[-7].replace(",", "")) for line in capsys.readouterr().out.splitlines())
    assert 0 < bfloat16 <= ours < authors
