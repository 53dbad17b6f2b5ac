"""Memory that is kept between steps, and given back after them."""

from __future__ import annotations

import pytest
import torch

from semco.training import memory
from semco.training.memory import give_back, kept_for_reuse


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []

    class Library:
        def gnu_get_libc_version(self) -> None: ...

        def mallopt(self, option: int, value: int) -> None:
            made.append((option, value))

        def malloc_trim(self, pad: int) -> None:
            made.append((0, pad))

    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: Library())
    return made


def test_the_defaults_come_back_whatever_happens(calls: list[tuple[int, int]]) -> None:
    with pytest.raises(KeyboardInterrupt), kept_for_reuse(torch.device("cpu")):
        raise KeyboardInterrupt
    assert calls == [(-1, -1), (-4, 0), (-1, 131072), (-4, 65536), (0, 0)]


def test_a_gpu_run_leaves_the_host_alone(calls: list[tuple[int, int]]) -> None:
    with kept_for_reuse(torch.device("meta")):
        give_back(torch.device("meta"))
    assert calls == []


def test_what_is_free_is_given_back_on_demand(calls: list[tuple[int, int]]) -> None:
    give_back(torch.device("cpu"))
    assert calls == [(0, 0)]
