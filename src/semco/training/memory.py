"""How the C library treats memory that a step gives back, on the CPU."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

# Parameters of glibc's mallopt(3). Thresholds that are set stay; glibc's own grow as tensors are freed, from those of
# OWN_PAGES to those of AFTERWARDS.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
OWN_PAGES = {TRIM_THRESHOLD: 128 << 10, MMAP_THRESHOLD: 128 << 10, MMAP_MAX: 65536}
NEVER_RETURNED = {TRIM_THRESHOLD: -1, MMAP_MAX: 0}
AFTERWARDS = {TRIM_THRESHOLD: 64 << 20, MMAP_THRESHOLD: 32 << 20, MMAP_MAX: 65536}


@contextmanager
def kept_for_reuse(device: torch.device, wanted: bool = True) -> Iterator[Callable[[], None]]:
    """Gives a function that has freed memory kept for the next step, from its call on, and not returned to the system.

    glibc gives tensors beyond 32 MB pages of their own and returns them when they are freed, so that every step of a
    WRN-28-2 touches a gigabyte of fresh pages, which the system must find and clear: a tenth of the step.

    Until the call every large tensor has pages of its own. So what the first step, and compiling, leave for good lies
    close together and not between the tensors of that step, where the next ones would not fit: that was a quarter of a
    compiled WRN-28-2's peak.

    Elsewhere than with glibc on a CPU, or where it is not wanted, nothing is done.
    """
    library = _glibc(device) if wanted else None
    if library is None:
        yield lambda: None
        return

    def keep() -> None:
        library.malloc_trim(0)
        _set(library, NEVER_RETURNED)

    _set(library, OWN_PAGES)
    try:
        yield keep
    finally:
        _set(library, AFTERWARDS)
        library.malloc_trim(0)


def _glibc(device: torch.device) -> ctypes.CDLL | None:
    """The C library where it is glibc and tensors are its memory."""
    library = ctypes.CDLL(None) if sys.platform == "linux" and device.type == "cpu" else None
    return library if hasattr(library, "mallopt") and hasattr(library, "gnu_get_libc_version") else None


def _set(library: ctypes.CDLL, options: dict[int, int]) -> None:
    for option, value in options.items():
        library.mallopt(option, value)
