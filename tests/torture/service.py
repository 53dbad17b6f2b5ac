"""Damaged requests to the HTTP service: each gets a status below 500 and JSON, and whole ones are still answered.

The requests go through a socket to a server in the same process. The body is damaged and its length is right, or the
damage is anywhere in the request, so that it may not be HTTP any more or never become complete.
"""

from __future__ import annotations

import http.client
import io
import json
import logging
import socket
import threading
import time
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import torch
from PIL import Image

from semco.config import ModelConfig
from semco.evaluation.model_file import ModelDescription, SavedModel, empty_network, save_model
from semco.export.service import Limits, Service, bind, make_server
from semco.predict.predictor import load
from torture.attack import Attack, Case, Failure
from torture.mutations import damage

FORM = "multipart/form-data; boundary=e"
WRONG_KINDS = ("", "image/png", FORM, "multipart/form-data", "multipart/form-data; boundary=")
QUERIES = ("top=3", "top=1", "top=0", "top=-1", "top=99999999999999999999", "top=%00", "top=\xb2")


def prepare(folder: Path) -> Path:
    """Write a small model, which every process of the attack loads once."""
    described = ModelDescription(
        class_names=("cat", "dog", "ship"),
        image_size=(8, 8),
        channels=3,
        mean=(0.5,) * 3,
        std=(0.25,) * 3,
        model=ModelConfig(backbone="wrn-10-1"),
        heads=("one_hot", "semantic"),
        embedding_dim=3,
        scale=4.0,
        groups=(0, 0, 1),
        eps=0.1,
    )
    save_model(folder / "model", SavedModel(described, empty_network(described), torch.eye(3)))
    return folder / "model"


class Errors(logging.Handler):
    """Collects the exceptions that the server has logged."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(self.format(record))


@cache
def start(model: Path) -> tuple[int, Errors]:
    """Start the server of this process; return its port and what it logs."""
    torch.set_num_threads(1)
    listening = bind()
    service = Service(load(model, engine="torch"), Limits(megabytes=0.02, photos=4, seconds=0.5))
    server, errors = make_server(service), Errors()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addHandler(errors)
    threading.Thread(target=server.run, args=([listening],), daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return listening.getsockname()[1], errors


@cache
def photos() -> tuple[bytes, ...]:
    """Return a PNG file, in which most damage is noticed, and a JPEG file, which can often be decoded all the same."""
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    files = []
    for name in ("png", "jpeg"):
        content = io.BytesIO()
        Image.fromarray(pixels).save(content, name)
        files.append(content.getvalue())
    return tuple(files)


def form(photo: bytes) -> bytes:
    head = b'--e\r\nContent-Disposition: form-data; name="p"; filename="a.png"\r\n\r\n'
    return head + photo + b"\r\n--e--\r\n"


def request(body: bytes, kind: str, query: str) -> bytes:
    head = (
        f"POST /predict?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    )
    return head.encode("latin-1") + b"Connection: close\r\n\r\n" + body


def ask(port: int, content: bytes) -> tuple[int, bytes]:
    """Send bytes and wait for the answer, as clients do: the sending side stays open."""
    with socket.create_connection(("127.0.0.1", port), timeout=15) as connection:
        connection.sendall(content)
        response = http.client.HTTPResponse(connection, method="POST")
        try:
            response.begin()
            return response.status, response.read()
        except (http.client.HTTPException, ConnectionError) as error:
            raise Failure("no answer", f"{error!r} to {content[:500]!r}") from error
        finally:
            response.close()


def damaged_request(random: Random) -> tuple[str, bytes]:
    """Return what is damaged, and the bytes to send."""
    body, kind = random.choice(photos()), "image/png"
    if random.random() < 0.5:
        body, kind = form(body), FORM
    if random.random() < 0.1:
        kind = random.choice(WRONG_KINDS)
    query = random.choice(QUERIES) if random.random() < 0.1 else ""
    if random.random() < 0.9:
        return "damaged body", request(damage(random, body), kind, query)
    return "damaged request", damage(random, request(body, kind, query))


def attack_request(case: Case) -> str:
    (port, errors), random = start(case.originals), case.random
    kind, content = damaged_request(random)
    status, answer = ask(port, content)
    if errors.found:
        raise Failure("a traceback in the log", errors.found.pop())
    if status >= 500 or b"Traceback" in answer:
        raise Failure(f"status {status}", answer[:500].decode("utf-8", "replace"))
    if list(json.loads(answer)) != (["predictions"] if status == 200 else ["error"]):
        raise Failure("an answer of another form", answer[:500].decode("utf-8", "replace"))
    status_of_whole, _ = ask(port, request(photos()[0], "image/png", "")) if random.random() < 0.05 else (200, b"")
    if status_of_whole != 200:
        raise Failure("a whole request was refused afterwards", str(status_of_whole))
    return f"{kind}: {status}"


ATTACK = Attack("requests", cases=10_000, minutes=2, case=attack_request, prepare=prepare, limit=20.0, memory=None)
