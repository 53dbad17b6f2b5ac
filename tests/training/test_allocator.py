"""Memory that is kept between steps, and given back after them."""

from __future__ import annotations

import pytest
import torch

from semco.training import allocator
from semco.training.allocator import _glibc, reuse_freed_memory, with_reused_memory


@pytest.fixture(autouse=True)
def _memory_is_managed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not so in other tests, see tests/conftest.py."""
    monkeypatch.setattr(allocator, "_glibc", _glibc)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []

    class Library:
        def gnu_get_libc_version(self) -> None: ...

        def mallopt(self, option: int, value: int) -> None:
            made.append((option, value))

        def malloc_trim(self, pad: int) -> None:
            made.append((0, pad))

    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: Library())
    return made


OWN_PAGES = [(-1, 128 << 10), (-3, 128 << 10), (-4, 65536)]
DEFAULTS = [(-1, 64 << 20), (-3, 32 << 20), (-4, 65536)]  # where glibc's own thresholds end


def test_memory_is_kept_from_the_call_on(calls: list[tuple[int, int]]) -> None:
    with reuse_freed_memory(torch.device("cpu")) as keep:
        assert calls == OWN_PAGES
        keep()
        assert calls == [*OWN_PAGES, (0, 0), (-1, -1), (-4, 0)]
        calls.clear()
    assert calls == [*DEFAULTS, (0, 0)]


def test_memory_is_returned_again_whatever_happens(calls: list[tuple[int, int]]) -> None:
    with pytest.raises(KeyboardInterrupt), reuse_freed_memory(torch.device("cpu")):
        raise KeyboardInterrupt
    assert calls == [*OWN_PAGES, *DEFAULTS, (0, 0)]


@pytest.mark.parametrize(("device", "wanted"), [("meta", True), ("cpu", False)])
def test_nothing_is_done_on_a_gpu_or_unasked(calls: list[tuple[int, int]], device: str, wanted: bool) -> None:
    with reuse_freed_memory(torch.device(device), wanted) as keep:
        keep()
    assert calls == []


def test_an_inner_block_changes_nothing(calls: list[tuple[int, int]]) -> None:
    with reuse_freed_memory(torch.device("cpu")) as keep:
        keep()
        calls.clear()
        with reuse_freed_memory(torch.device("cpu")) as inner:
            inner()
        assert calls == []
    assert calls == [*DEFAULTS, (0, 0)]


def test_an_inner_block_keeps_memory_where_the_outer_one_does_not_yet(calls: list[tuple[int, int]]) -> None:
    """All images pass the frozen layers before the first result of the layers above."""
    device = torch.device("cpu")
    with reuse_freed_memory(device) as keep:
        for _ in with_reused_memory(iter([1, 2]), device):
            pass
        kept = [(0, 0), (-1, -1), (-4, 0)]
        assert calls == [*OWN_PAGES, *kept, *OWN_PAGES, (0, 0)]
        calls.clear()
        keep()
        keep()
        assert calls == kept
        calls.clear()
    assert calls == [*DEFAULTS, (0, 0)]


def test_blocks_may_end_in_any_order(calls: list[tuple[int, int]]) -> None:
    """A generator ends when nobody holds it any more."""
    outer, inner = (reuse_freed_memory(torch.device("cpu")) for _ in range(2))
    outer.__enter__()
    keep = inner.__enter__()
    keep()
    calls.clear()
    outer.__exit__(None, None, None)
    assert calls == []
    inner.__exit__(None, None, None)
    assert calls == [*DEFAULTS, (0, 0)]


def test_memory_is_reused_from_the_first_result_on(calls: list[tuple[int, int]]) -> None:
    seen = [(result, list(calls)) for result in with_reused_memory(iter([1, 2]), torch.device("cpu"))]
    kept = [*OWN_PAGES, (0, 0), (-1, -1), (-4, 0)]
    assert seen == [(1, OWN_PAGES), (2, kept)]
    assert calls == [*kept, *DEFAULTS, (0, 0)]
