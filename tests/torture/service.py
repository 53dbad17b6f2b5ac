"""Damaged requests to the HTTP service: each gets a status below 500 and JSON, and whole ones are still answered."""

from __future__ import annotations

import asyncio
import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from semco.config import ModelConfig
from semco.evaluation.model_file import ModelDescription, SavedModel, empty_network, save_model
from semco.evaluation.predictor import load
from semco.export.service import Limits, Service, build_app
from torture.attack import Attack, Case, Failure
from torture.mutations import damage

KINDS = ("image/png", "", "multipart/form-data; boundary=e", "multipart/form-data", "multipart/form-data; boundary=")
QUERIES = ("", "", "", "", "top=3", "top=1", "top=0", "top=-1", "top=99999999999999999999", "top=%00", "top=\xb2")


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


@cache
def application(model: Path) -> Any:
    torch.set_num_threads(1)
    return build_app(Service(load(model, engine="torch"), Limits(megabytes=0.02, photos=4)))


@cache
def photo() -> bytes:
    content = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)).save(content, "png")
    return content.getvalue()


def form() -> bytes:
    head = b'--e\r\nContent-Disposition: form-data; name="p"; filename="a.png"\r\n\r\n'
    return head + photo() + b"\r\n--e--\r\n"


async def ask(app: Any, body: bytes, kind: str, query: str) -> tuple[int, bytes]:
    """Call the application as a server does, with the body in two parts."""
    half = len(body) // 2
    parts = [
        {"type": "http.request", "body": body[:half], "more_body": True},
        {"type": "http.request", "body": body[half:], "more_body": False},
        {"type": "http.disconnect"},
    ]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return parts.pop(0) if len(parts) > 1 else parts[0]

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/predict", "query_string": query.encode("utf-8"),
             "headers": [(b"content-type", kind.encode("latin-1", "replace"))], "http_version": "1.1", "scheme": "http",
             "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "root_path": ""}  # fmt: skip
    await app(scope, receive, send)
    return int(sent[0]["status"]), b"".join(message.get("body", b"") for message in sent[1:])


def attack_request(case: Case) -> str:
    app, random = application(case.originals), case.random
    kind = random.choice(KINDS)
    body = damage(random, random.choice((photo(), form())))
    status, content = asyncio.run(ask(app, body, kind, random.choice(QUERIES)))
    if status >= 500 or b"Traceback" in content:
        raise Failure(f"status {status}", content[:500].decode("utf-8", "replace"))
    answer = json.loads(content)
    if status != 200 and list(answer) != ["error"]:
        raise Failure("a refusal that is not a sentence", content[:500].decode("utf-8", "replace"))
    status_of_whole, _ = asyncio.run(ask(app, photo(), "image/png", "")) if random.random() < 0.05 else (200, b"")
    if status_of_whole != 200:
        raise Failure("a whole request was refused afterwards", str(status_of_whole))
    return "answered" if status == 200 else "refused"


ATTACK = Attack("requests", cases=10_000, minutes=2, case=attack_request, prepare=prepare, limit=20.0, memory=None)
