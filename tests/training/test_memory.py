"""Memory that is kept between steps, and given back after them."""

from __future__ import annotations

import ctypes
import resource
from contextlib import nullcontext

import pytest
import torch

from semco.training import memory
from semco.training.memory import kept_for_reuse

glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="another C library")


def page_faults(keep: bool) -> int:
    """Of filling 64 MB, freeing and filling them again, eight times."""
    with kept_for_reuse(torch.device("cpu")) if keep else nullcontext():
        torch.ones(2**24)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(8):
            torch.ones(2**24)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@glibc
def test_pages_are_used_again_inside_and_returned_outside() -> None:
    assert page_faults(keep=True) < 0.25 * page_faults(keep=False)


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
        pass
    assert calls == []
