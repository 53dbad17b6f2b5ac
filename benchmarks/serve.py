"""Latency of `semco serve` on this machine: requests of one photo each by several clients at once, over loopback.

A client sends its next request when it has the answer to the last one. The number of requests and their time are
bounded.
"""

from __future__ import annotations

import http.client
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from benchmarks.child import child_failed, run_code
from benchmarks.predict import make_model, make_photos
from benchmarks.rows import Row
from benchmarks.scale import free_port
from benchmarks.worker import worker_environment
from semco.errors import UserError
from semco.evaluation.model_file import save_model

HOST, PHOTOS = "127.0.0.1", 8
START, ANSWER = 60.0, 30.0  # seconds until the service has started, and until it has answered


def bench_serve(
    backbone: str = "efficientnet-lite0",
    size: int = 224,
    clients: Sequence[int] = (1, 8, 64),
    requests: int = 128,
    threads: int = 2,
) -> list[Row]:
    """Return p50 and p99 of the milliseconds until an answer, by the number of clients.

    ``requests``: those of all clients together. The alternative is to predict the photos of all clients one by one, in
    a process that has loaded the model.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder, make_model(backbone, size))
        photos = [path.read_bytes() for path in make_photos(folder, PHOTOS)]
        single = time_single_photos(folder, threads)
        with running_service(folder, threads) as port:
            send(port, photos, 2)  # the first answers are slower
            latencies = {count: send_from_clients(port, photos, count, requests) for count in clients}
    return [row for count, seconds in latencies.items() for row in _rows(count, seconds, single)]


def _rows(clients: int, seconds: Sequence[float], single: float) -> list[Row]:
    what = f"answer of semco serve, {clients} client{'s' if clients > 1 else ''}"
    return [
        Row(f"{what}, p{p}", "ms", 1000 * float(np.percentile(seconds, p)), alternative=1000 * single * clients,
            instead=f"{clients} predicted one by one")
        for p in (50, 99)
    ]  # fmt: skip


def time_single_photos(model: Path, threads: int) -> float:
    """Return the median of the seconds that a loaded model takes for one photo in its folder, in another process."""
    seconds: float = run_code("single photos", _SINGLE_CODE, str(model), environment=worker_environment(threads))
    return seconds


_SINGLE_CODE = """
import statistics, sys, time
from pathlib import Path
from semco.predict.predictor import load
predictor, seconds = load(Path(sys.argv[1])), []
photos = sorted(Path(sys.argv[1]).glob("*.jpg"))
for photo in [photos[0], *photos]:
    start = time.perf_counter()
    predictor.predict_proba([photo])
    seconds.append(time.perf_counter() - start)
print(statistics.median(seconds[1:]))  # the first is slower
"""


@contextmanager
def running_service(model: Path, threads: int) -> Iterator[int]:
    """Run ``semco serve`` in a process of its own; yield its port when it answers, and stop it when the block ends."""
    port, errors = free_port(), model / "errors.txt"
    command = [sys.executable, "-m", "semco", "serve", str(model), "--port", str(port)]
    with errors.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=worker_environment(threads))
    try:
        until = time.monotonic() + START
        while not _is_healthy(port):
            if process.poll() is not None:
                raise child_failed("service", errors.read_text(encoding="utf-8"), process.returncode)
            if time.monotonic() > until:
                raise UserError(f"the service did not start within {START:g} s; measure again on a less busy machine.")
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(START)


def _is_healthy(port: int) -> bool:
    with suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        finally:
            connection.close()
    return False


def send_from_clients(port: int, photos: Sequence[bytes], clients: int, requests: int) -> list[float]:
    """Return the seconds until each answer, with ``clients`` at a time, each of which sends as many requests."""
    each = max(2, requests // clients)
    with ThreadPoolExecutor(clients) as pool:
        sent = pool.map(lambda client: send(port, photos[client % len(photos) :] + photos, each), range(clients))
        return [seconds for client in sent for seconds in client]


def send(port: int, photos: Sequence[bytes], count: int) -> list[float]:
    """Send ``count`` photos one after the other over one connection; return the seconds until each answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER)
    try:
        return [_answer(connection, photos[i % len(photos)]) for i in range(count)]
    finally:
        connection.close()


def _answer(connection: http.client.HTTPConnection, photo: bytes) -> float:
    start = time.perf_counter()
    connection.request("POST", "/predict", photo, {"Content-Type": "image/jpeg"})
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise UserError(f"the service answered {response.status} ({body.decode()}); measure with fewer clients.")
    return time.perf_counter() - start
