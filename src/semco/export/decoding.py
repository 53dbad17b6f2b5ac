"""Decode untrusted photos in separate processes, which are killed if a photo takes too long.

A file of a kilobyte can take gigabytes and minutes to decode, and a damaged one can crash a library. Then one answer
and one process are lost, but the service keeps running.

Shapes: S height and width of a decoded image.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

from semco.export.decoding_worker import DECODED

Pixels = NDArray[np.uint8]
# One thread and one heap: the limit is on the address space, of which every further thread and heap reserves much.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
STARTING = 60.0  # seconds for a process to start


@dataclass(frozen=True)
class DecodingLimits:
    """Limits on the time and memory for a photo."""

    megapixels: int = 50
    """Size at which it is decoded; JPEG and JPEG 2000 files can be decoded at a smaller size than their own."""
    seconds: float = 10.0
    """Time until the process that decodes it is ended."""
    megabytes: int = 400
    """Memory of a process."""
    processes: int = 2
    """Photos that are decoded at the same time."""


class Decoders:
    """A few processes that decode photos to squares of one size; they are started when they are needed."""

    def __init__(self, size: int, limits: DecodingLimits) -> None:
        self._threads = ThreadPoolExecutor(limits.processes, thread_name_prefix="semco-decode")
        self._idle = [Decoder(size, limits) for _ in range(limits.processes)]
        self._all = tuple(self._idle)

    async def decode(self, content: bytes) -> Pixels | str:
        """Return a photo as (S, S, 3), or the reason why it cannot be read."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._decode, content)

    def _decode(self, content: bytes) -> Pixels | str:
        decoder = self._idle.pop()  # as many decoders as threads
        try:
            return decoder.decode(content)
        finally:
            self._idle.append(decoder)

    def close(self) -> None:
        for decoder in self._all:
            decoder.kill()
        self._threads.shutdown(cancel_futures=True)
        for decoder in self._all:
            decoder.close()


class Decoder:
    """A process that decodes one photo at a time, and is replaced if it was ended."""

    def __init__(self, size: int, limits: DecodingLimits) -> None:
        self._size, self._limits = size, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def decode(self, content: bytes) -> Pixels | str:
        try:
            connection = self._started()
            connection.send_bytes(content)
            if not connection.poll(self._limits.seconds):
                self.close()
                return f"it takes more than {self._limits.seconds:g} seconds to decode"
            found = connection.recv_bytes()
        except (EOFError, OSError):
            self.close()
            return "the process that decoded it has died"
        if found[:1] != DECODED:
            return found[1:].decode()
        return np.frombuffer(found, np.uint8, offset=1).reshape(self._size, self._size, 3)

    def _started(self) -> Connection:
        if self._connection is not None:
            return self._connection
        ours, theirs = Pipe()
        numbers = (theirs.fileno(), self._size, self._limits.megapixels * 10**6, self._limits.megabytes << 20)
        command = [sys.executable, "-m", "semco.export.decoding_worker", *map(str, numbers)]
        with theirs:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env={**os.environ, **ENVIRONMENT}
            )
        self._connection = ours
        if not ours.poll(STARTING):
            raise OSError(f"a process that decodes photos has not started within {STARTING:g} seconds")
        ours.recv_bytes()
        return ours

    def close(self) -> None:
        """End the process; the next photo gets another one."""
        self.kill()
        if self._process is not None:
            self._process.wait()
        if self._connection is not None:
            self._connection.close()
        self._process, self._connection = None, None

    def kill(self) -> None:
        """End the process; may be called by any thread."""
        if (process := self._process) is not None:
            process.kill()
