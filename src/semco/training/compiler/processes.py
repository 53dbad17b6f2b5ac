"""The compilers that torch.compile starts; they must end when a signal stops the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# Seconds after which a compiler that does not end is killed, and after which it is no longer waited for.
KILL_AFTER, GIVE_UP_AFTER = 0.5, 3.0
# States of a process that has ended, but whose parent has not asked for its exit code yet.
ENDED = ("Z", "X")


class Process(NamedTuple):
    """A process of this machine."""

    pid: int
    parent: int
    command: str  # empty for a moment while it starts another program


def list_processes() -> Iterator[Process]:
    """Yield the processes of this machine that this one may see and that have not ended."""
    if Path("/proc/self/stat").exists():
        yield from _read_proc()
        return
    try:
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return
    for line in listed.stdout.splitlines():
        pid, parent, state, command = line.split(None, 3)
        if state[0] not in ENDED:
            yield Process(int(pid), int(parent), command)


def _read_proc() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text(errors="replace")
            command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:  # it has ended, or belongs to another user
            continue
        state, parent = status.rpartition(")")[2].split()[:2]
        if state not in ENDED:
            yield Process(int(folder.name), int(parent), command)


def find_compilers(folder: str) -> list[Process]:
    """Return the children of this process whose command names ``folder``, and all their descendants."""
    processes = list(list_processes())
    found = [each for each in processes if each.parent == os.getpid() and folder in each.command]
    for compiler in found:  # grows
        found += [each for each in processes if each.parent == compiler.pid]
    return found


def end_compilers(number: int = signal.SIGTERM, ending: set[int] | None = None) -> bool:
    """Send a signal to the compilers of this process, which write to torch's cache; return whether there were any.

    Of a compiler that has started other programs only these get it: it then removes their files and ends. It has no
    programs any more while it does so; ``ending`` keeps such compilers from one call to the next, which spares them.
    """
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")  # torch sets it before the first compiler
    compilers = find_compilers(folder) if folder else []
    spared = set() if ending is None else ending
    spared |= {each.parent for each in compilers}
    for compiler in compilers:
        if compiler.pid not in spared:
            with suppress(ProcessLookupError):  # it has ended
                os.kill(compiler.pid, number)
    return bool(compilers)


def interrupt_compilers() -> None:
    """End the compilers that run now, and wait a moment for them to remove their files."""
    deadline, ending = time.monotonic() + KILL_AFTER, set[int]()
    while end_compilers(ending=ending) and time.monotonic() < deadline:
        time.sleep(0.02)


def stop_compiling() -> None:
    """Cancel what torch has yet to compile, and wait until its compilers have ended, so that none is left behind.

    torch then forgets all compiled code, because it would wait for the cancelled part of it.
    """
    if "torch._inductor.async_compile" in sys.modules:
        from torch._inductor.async_compile import AsyncCompile

        if AsyncCompile.pool.cache_info().currsize:
            pool = AsyncCompile.pool()
            AsyncCompile.pool.cache_clear()
            pool.shutdown(wait=False, cancel_futures=True)
            _wait_for(threading.Thread(target=pool.shutdown, daemon=True))
    forget_compiled_code()


def _wait_for(end: threading.Thread) -> None:
    """End compilers until the thread, which waits for those that use them, has ended."""
    started, ending = time.monotonic(), set[int]()
    end.start()
    while end.is_alive() and (waited := time.monotonic() - started) < GIVE_UP_AFTER:
        if waited < KILL_AFTER:
            end_compilers(ending=ending)
        else:
            end_compilers(signal.SIGKILL)
        end.join(0.05)


def forget_compiled_code() -> None:
    """Make torch read or compile all code again when it is next needed."""
    import torch
    from torch._inductor.utils import clear_caches

    torch._dynamo.reset()
    clear_caches()
