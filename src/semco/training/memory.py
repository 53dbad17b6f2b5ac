"""How the C library treats memory that a step gives back, on the CPU."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Parameters of glibc's mallopt(3), and its defaults.
TRIM_THRESHOLD, MMAP_MAX = -1, -4
DEFAULTS = {TRIM_THRESHOLD: 128 * 1024, MMAP_MAX: 65536}
NEVER = {TRIM_THRESHOLD: -1, MMAP_MAX: 0}


@contextmanager
def kept_for_reuse(device: torch.device) -> Iterator[None]:
    """Keep freed memory for the next step instead of returning it to the system.

    glibc gives tensors beyond 32 MB pages of their own and returns them when they are freed, so that every step of a
    WRN-28-2 touches a gigabyte of fresh pages, which the system must find and clear: a tenth of the step. Elsewhere
    than with glibc on a CPU nothing is done.
    """
    library = _glibc(device)
    if library is None:
        yield
        return
    _set(library, NEVER)
    try:
        yield
    finally:
        _set(library, DEFAULTS)
        library.malloc_trim(0)


def give_back(device: torch.device) -> None:
    """Return what is free to the system, once.

    Compiling and the first step leave free memory in pieces between what stays; the next step does not fit into them
    and takes more. Of a compiled WRN-28-2's peak that was a sixth.
    """
    library = _glibc(device)
    if library is not None:
        library.malloc_trim(0)


def _glibc(device: torch.device) -> ctypes.CDLL | None:
    """The C library where it is glibc and tensors are its memory."""
    library = ctypes.CDLL(None) if sys.platform == "linux" and device.type == "cpu" else None
    return library if hasattr(library, "mallopt") and hasattr(library, "gnu_get_libc_version") else None


def _set(library: ctypes.CDLL, options: dict[int, int]) -> None:
    for option, value in options.items():
        library.mallopt(option, value)
