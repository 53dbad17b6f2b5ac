"""Figures of docs/deploy.md: the rate of `semco predict`, its memory, attacks on the service, agreement of the ways.

python scripts/measure_deploy.py {rate,memory,requests,agree} RUN
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import http.client
import io
import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import semco
from semco.data.sources import load as load_data
from semco.evaluation.model_file import load_model
from semco.predict.images import Output, predict_into
from semco.run.folder import RunFolder


def make_photos(folder: Path, count: int, side: int) -> list[Path]:
    """Write JPEG photos of random smooth content; file names sort by number."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    files = [folder / f"{number:07d}.jpg" for number in range(count)]
    different = []
    for _ in range(min(count, 50)):
        coarse = rng.integers(0, 256, (9, 12, 3)).astype(np.uint8)
        content = io.BytesIO()
        Image.fromarray(coarse).resize((side * 4 // 3, side), Image.Resampling.BICUBIC).save(content, "jpeg")
        different.append(content.getvalue())
    for number, file in enumerate(files):
        file.write_bytes(different[number % len(different)])
    return files


def plain_loop(run: Path, files: list[Path]) -> None:
    """Open, resize and classify one photo after the other."""
    model = load_model(run / "model")
    about = model.description
    mean, std = (torch.tensor(each).view(-1, 1, 1) for each in (about.mean, about.std))
    mode = "L" if about.channels == 1 else "RGB"
    with torch.inference_mode():
        for file in files:
            image = Image.open(file).convert(mode).resize(about.image_size[::-1], Image.Resampling.BICUBIC)
            pixels = torch.from_numpy(np.asarray(image).reshape(*about.image_size, -1).copy()).permute(2, 0, 1) / 255
            model.network(((pixels - mean) / std)[None]).logits.softmax(dim=1)


def rate(run: Path) -> None:
    """Compare both in turn, so that they meet the same load of the machine."""
    with tempfile.TemporaryDirectory() as folder:
        files = make_photos(Path(folder) / "photos", 300, 768)
        predictor = semco.load(run)
        ratios = []
        for number in range(3):
            started = time.perf_counter()
            plain_loop(run, files)
            plain = time.perf_counter() - started
            started = time.perf_counter()
            predict_into(Output(Path(folder) / f"{number}.csv"), predictor, [Path(folder) / "photos"])
            ours = time.perf_counter() - started
            ratios.append(plain / ours)
            print(
                f"plain loop {len(files) / plain:.0f} photos per s, semco predict {len(files) / ours:.0f}", flush=True
            )
        print(f"ratio {np.median(ratios):.1f} (median of {len(ratios)}), engine {predictor.engine.name}")


def memory(run: Path) -> None:
    """Print the peak memory of processes that predict lists of photos, each ten times as long as the one before."""
    with tempfile.TemporaryDirectory() as folder:
        files = make_photos(Path(folder) / "photos", 300, 48)
        for count in (2_000, 20_000, 200_000):
            paths = Path(folder) / f"{count}.txt"
            paths.write_text("".join(f"{files[i % len(files)]}\n" for i in range(count)))
            command = [sys.executable, "-m", "semco", "predict", run, f"@{paths}", "--out", f"{folder}/{count}.csv"]
            subprocess.run(list(map(str, command)), check=True, stderr=subprocess.DEVNULL)
            with Path(f"{folder}/{count}.csv").open() as rows:
                assert sum(1 for _ in rows) == count + 1
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f"{count:,} photos: largest peak so far {peak:.0f} MB", flush=True)


def start_service(model: Path, *options: str, log: Path | None = None) -> tuple[subprocess.Popen[bytes], int]:
    """Start the service and return its process and its port; ``log`` gets what it prints."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "semco", "serve", str(model), "--port", str(port), *options]
    process = subprocess.Popen(command, stderr=None if log is None else log.open("wb"))
    while True:
        try:
            ask(port, b"", "GET", "/health")
            return process, port
        except OSError:
            time.sleep(0.2)


def ask(port: int, body: bytes, method: str = "POST", path: str = "/predict") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


async def send_raw(port: int, request: bytes) -> str:
    """Send bytes that may be no HTTP at all, and return the status of the answer; the sending side stays open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(4096), 120)
        return answer[9:12].decode("ascii", "replace") if answer.startswith(b"HTTP/") else "closed without an answer"
    except (ConnectionError, TimeoutError) as error:
        return type(error).__name__
    finally:
        writer.close()


def mutate(request: bytes, rng: np.random.Generator) -> bytes:
    """Return a request with some bytes changed, or cut, or with a piece doubled."""
    content, kind = bytearray(request), rng.integers(4)
    start, end = sorted(rng.integers(0, len(content), 2).tolist())
    if kind == 0:
        for place in rng.integers(0, len(content), int(rng.integers(1, 12))):
            content[place] = int(rng.integers(256))
    elif kind == 1:
        del content[start:]
    elif kind == 2:
        del content[start:end]
    else:
        content[start:start] = content[start:end]
    return bytes(content)


def requests(run: Path) -> None:
    """Send 10,000 mutated requests, 200 at a time, then 200 whole ones at once, and count what comes back."""
    content = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 64, 3)).astype(np.uint8)).save(content, "jpeg")
    photo = content.getvalue()
    form = b'--e\r\nContent-Disposition: form-data; name="p"; filename="a.jpg"\r\n\r\n' + photo + b"\r\n--e--\r\n"
    bodies = (("image/jpeg", photo), ("multipart/form-data; boundary=e", form))
    rng = np.random.default_rng(0)

    def mutated(kind: str) -> bytes:
        content_type, body = bodies[int(rng.integers(2))]
        if kind == "body":  # its length is right, as a client would send it
            return request_of(content_type, mutate(body, rng))
        return mutate(request_of(content_type, body), rng)

    async def attack(kind: str) -> Counter[str]:
        statuses: Counter[str] = Counter()
        for _ in range(25):
            statuses.update(await asyncio.gather(*(send_raw(port, mutated(kind)) for _ in range(200))))
        return statuses

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        process, port = start_service(run, "--timeout", "10", log=log)
        for kind in ("body", "anything"):
            started = time.perf_counter()
            statuses = asyncio.run(attack(kind))
            seconds = time.perf_counter() - started
            print(f"{statuses.total():,} requests, {kind} mutated, in {seconds:.0f} s: {dict(statuses)}", flush=True)
        expected = json.loads(ask(port, photo)[1])
        with ThreadPoolExecutor(200) as clients:
            started = time.perf_counter()
            answers = list(clients.map(lambda _: ask(port, photo), range(200)))
        right = sum(status == 200 and _same(json.loads(body), expected) for status, body in answers)
        print(f"200 concurrent requests in {time.perf_counter() - started:.1f} s: {right} right answers")
        print(f"alive afterwards: {process.poll() is None}, tracebacks: {log.read_text().count('Traceback')}")
        process.terminate()
        process.wait()


def request_of(content_type: str, body: bytes) -> bytes:
    head = f"POST /predict?top=3 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {content_type}\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def _same(one: dict, other: dict) -> bool:
    (a,), (b,) = one["predictions"], other["predictions"]
    return a["label"] == b["label"] and abs(a["confidence"] - b["confidence"]) < 1e-5


def agree(run: Path) -> None:
    """Predict 1,000 images in four ways: Python, the command line, ONNX Runtime, HTTP."""
    data = RunFolder.open(run).config().data
    images = load_data(data).train_images[:1000]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number:04d}.png" for number in range(len(images))]
        for file, image in zip(files, images, strict=True):
            pixels = image.permute(1, 2, 0).numpy()
            Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file)
        python = [(p.label, p.confidence) for p in semco.load(run, engine="torch").predict(files)]
        onnx = [(p.label, p.confidence) for p in semco.load(run, engine="onnx").predict(files)]
        out = Path(folder) / "out.csv"
        subprocess.run([sys.executable, "-m", "semco", "predict", str(run), folder, "--out", str(out)], check=True)
        with out.open(newline="") as stream:
            command = [(row["label"], float(row["confidence"])) for row in csv.DictReader(stream)]
        process, port = start_service(run)
        with ThreadPoolExecutor(8) as clients:
            bodies = clients.map(lambda file: json.loads(ask(port, file.read_bytes())[1])["predictions"][0], files)
            served = [(each["label"], each["confidence"]) for each in bodies]
        process.terminate()
        process.wait()
    for name, other in (("command line", command), ("ONNX Runtime", onnx), ("HTTP", served)):
        same = sum(a[0] == b[0] for a, b in zip(python, other, strict=True))
        gap = max(abs((a[1] or 0) - (b[1] or 0)) for a, b in zip(python, other, strict=True))
        print(f"Python and {name}: {same} of {len(python)} labels equal, confidence within {gap:.1e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rate", "memory", "requests", "agree"])
    parser.add_argument("run", type=Path)
    options = parser.parse_args()
    {"rate": rate, "memory": memory, "requests": requests, "agree": agree}[options.what](options.run)


if __name__ == "__main__":
    main()
