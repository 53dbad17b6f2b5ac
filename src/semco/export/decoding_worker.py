"""A process that decodes untrusted photos, with a limit on its memory; `semco.export.decoding` starts it.

    python -m semco.export.decoding_worker SOCKET SIZE PIXELS BYTES

It gets the bytes of one photo at a time and answers with a byte and the pixels (S, S, 3), or the reason why there are
none. It does not import torch, so that it starts fast and takes little memory.
"""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from semco.data.decode import DECODE_ERRORS, decode, reason_of
from semco.data.listing import Entry, InMemory

DECODED, REFUSED = b"\x00", b"\x01"
NICENESS = 5  # lower priority than the process that answers requests


def limit_memory(count: int) -> None:
    """Limit the memory of this process to its present size plus a number of bytes, if the system can do that."""
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + count, used + count))
    except (ImportError, OSError, ValueError):  # not Linux: the limits on pixels and time remain
        return


def answer(content: bytes, size: int, pixels: int) -> bytes:
    entry = Entry("photo", InMemory(content))
    try:
        return DECODED + decode(entry, size, pixels).tobytes()
    except MemoryError:
        return REFUSED + b"it needs too much memory to decode"
    except DECODE_ERRORS as error:
        return REFUSED + reason_of(error, entry).encode(errors="replace")


def main() -> None:
    socket, size, pixels, memory = map(int, sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which ends this process
    os.nice(NICENESS)
    limit_memory(memory)
    connection = Connection(socket)
    connection.send_bytes(DECODED)  # it is ready
    while True:
        try:
            connection.send_bytes(answer(connection.recv_bytes(), size, pixels))
        except (EOFError, ConnectionError):  # the service has ended
            return


if __name__ == "__main__":
    main()
