"""The HTTP service, driven by a real client and by a browser."""

from __future__ import annotations

import asyncio
import base64
import http.client
import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import semco
from semco.cli.main import app
from semco.errors import UserError
from semco.evaluation.thresholds import Threshold
from semco.export.service import ADDRESSES, Limits, Service, bind, check_start, is_own_name, make_server
from semco.models.familiarity import Familiarity
from tests.conftest import tiny_images
from tests.export.chromium import PROGRAM, Browser


class Server:
    """The service in a thread, on a free port."""

    def __init__(
        self, run: Path, limits: Limits | None = None, token: str | None = None, predictor: Any = None
    ) -> None:
        listening = bind()
        self.port = listening.getsockname()[1]
        self._server = make_server(Service(predictor or semco.load(run, engine="torch"), limits, token))
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(60)

    def ask(self, body: bytes, path: str = "/predict", **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[Server]:
    started = Server(run, Limits(megabytes=0.05, photos=3))
    yield started
    started.close()


def png(image: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(image).save(content, "png")
    return content.getvalue()


@pytest.fixture(scope="module")
def photos() -> list[bytes]:
    return [png(image) for image in tiny_images(10, seed=9)[0]]


def form(*photos: bytes) -> tuple[bytes, str]:
    parts = [
        b'--edge\r\nContent-Disposition: form-data; name="photo"; filename="%d.png"\r\n\r\n%s\r\n' % (number, photo)
        for number, photo in enumerate(photos)
    ]
    return b"".join(parts) + b"--edge--\r\n", "multipart/form-data; boundary=edge"


def test_answers_are_those_of_python(server: Server, run: Path, photos: list[bytes], tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.png" for number in range(len(photos))]
    for file, photo in zip(files, photos, strict=True):
        file.write_bytes(photo)
    expected = semco.load(run, engine="torch").predict(files, top=3)
    with ThreadPoolExecutor(16) as clients:  # many at once, so that they share batches
        answers = list(clients.map(server.ask, photos))
    for (status, content), prediction in zip(answers, expected, strict=True):
        assert status == 200
        (answer,) = content["predictions"]
        assert (answer["label"], answer["group"]) == (prediction.label, prediction.group)
        assert answer["confidence"] == pytest.approx(prediction.confidence, abs=1e-5)
        assert [each["label"] for each in answer["top"]] == [name for name, _ in prediction.top]


def test_several_photos_in_a_form(server: Server, photos: list[bytes]) -> None:
    body, kind = form(photos[0], b"broken", photos[1])
    status, content = server.ask(body, "/predict?top=1", content_type=kind)
    assert status == 200
    names = [answer["name"] for answer in content["predictions"]]
    assert names == ["0.png", "1.png", "2.png"]
    assert content["predictions"][1]["error"] == "it is not an image in a known format"
    assert len(content["predictions"][0]["top"]) == 1


def test_health(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/health")
    assert json.loads(connection.getresponse().read()) == {"status": "ok", "classes": 4, "engine": "torch"}
    connection.close()


def test_bad_requests_get_a_sentence(server: Server, photos: list[bytes]) -> None:
    body, kind = form(*photos[:4])
    for arguments, headers, status, sentence in (
        ((b"",), {}, 400, "holds no photo"),
        ((b"no image",), {}, 415, "it is not an image in a known format"),
        ((photos[0][:60],), {}, 415, "no photo can be read"),
        ((b"x" * 60_000,), {}, 413, "larger than 0.05 MB"),
        ((photos[0], "/predict?top=many"), {}, 400, "top is the number of classes"),
        ((body,), {"content_type": kind}, 400, "cannot be read"),
        ((b"nothing",), {"content_type": "multipart/form-data"}, 400, "the form cannot be read"),
    ):
        found, content = server.ask(*arguments, **headers)  # type: ignore[arg-type]
        assert (found, list(content)) == (status, ["error"]), content
        assert sentence in content["error"]
        assert "Traceback" not in content["error"]


def test_a_token_keeps_others_out(run: Path, photos: list[bytes]) -> None:
    server = Server(run, token="secret")
    try:
        assert server.ask(photos[0])[0] == 401
        assert server.ask(photos[0], authorization="Bearer wrong")[0] == 401
        assert server.ask(photos[0], authorization="Bearer secret")[0] == 200
    finally:
        server.close()


def test_more_requests_than_can_wait(run: Path, photos: list[bytes]) -> None:
    server = Server(run, Limits(waiting=0))
    try:
        assert server.ask(photos[0]) == (503, {"error": "too many requests are waiting; try again in a moment."})
    finally:
        server.close()


def test_more_bytes_than_are_held(run: Path, photos: list[bytes]) -> None:
    server = Server(run, Limits(held_megabytes=0.001))
    try:
        assert server.ask(b"x" * 2000)[0] == 503
        assert server.ask(photos[0])[0] == 200  # the bytes of the first request are not held any more
    finally:
        server.close()


def test_names_of_other_sites_are_refused_without_a_token(run: Path, server: Server, photos: list[bytes]) -> None:
    """A page of evil.example, whose name leads to 127.0.0.1 by now (DNS rebinding), gets nothing."""
    sentence = "this service is called by its IP address or as localhost, unless it has a token."
    for host, status in (("evil.example", 403), ("localhost:8000", 200), ("[::1]:8000", 200), ("192.168.1.2", 200)):
        assert server.ask(photos[0], host=host)[0] == status
    assert server.ask(b"", "/predict", host="[evil") == (403, {"error": sentence})
    assert is_own_name("Photos.example:80", "photos.EXAMPLE")
    with_token = Service(semco.load(run, engine="torch"), token="secret")
    with_token.check_host("evil.example")
    with_token.close()


@pytest.mark.parametrize("arguments", [["--token", ""], []])
def test_an_empty_token_is_refused(run: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMCO_TOKEN", "")
    done = CliRunner().invoke(app, ["serve", str(run), *arguments])
    assert isinstance(done.exception, UserError)
    assert "the token is empty" in str(done.exception)


@pytest.mark.parametrize("token", [" ", "a\nb", "pässword", "\udcff"])
def test_a_token_that_no_header_can_hold_is_refused(token: str) -> None:
    with pytest.raises(UserError, match="the token cannot be sent in a header"):
        check_start(token)


def test_a_photo_that_is_a_bomb_costs_one_answer(server: Server, photos: list[bytes]) -> None:
    bomb = io.BytesIO()
    Image.new("1", (8900, 8900)).save(bomb, "png")
    status, answer = server.ask(bomb.getvalue())
    assert (status, "it has 8900 x 8900 pixels, and at most 50 million are decoded" in answer["error"]) == (415, True)
    assert server.ask(photos[0])[0] == 200


def exchange(port: int, *parts: bytes) -> tuple[bytes, Any]:
    """Send the parts one after the other; return the status line and the JSON of the last answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(0.05)
        content = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = content[content.rindex(b"HTTP/1.1 ") :].partition(b"\r\n\r\n")
    return head.splitlines()[0], json.loads(body)


def test_requests_that_never_become_complete(run: Path) -> None:
    """The connection ends with a sentence, also if a whole request came first, or if the body is missing."""
    server = Server(run, Limits(seconds=0.2))
    late = {"error": "the request did not arrive within 0.2 seconds."}
    try:
        for parts in ((), (b"POST /pre",), (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"GET /hea")):
            assert exchange(server.port, *parts) == (b"HTTP/1.1 408 Request Timeout", late)
        head = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\nConnection: close\r\n\r\n"
        assert exchange(server.port, head, b"half") == (b"HTTP/1.1 408 Request Timeout", late)
    finally:
        server.close()


def test_other_addresses_and_what_is_not_http(server: Server, photos: list[bytes]) -> None:
    assert server.ask(photos[0], "/other") == (404, {"error": ADDRESSES})
    assert server.ask(photos[0], "/health") == (405, {"error": ADDRESSES})
    invalid = (b"HTTP/1.1 400 Bad Request", {"error": "the request is not valid HTTP."})
    assert exchange(server.port, b"photo\r\n\r\n") == invalid
    chunked = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert exchange(server.port, chunked, b"no length\r\n") == invalid


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
def test_a_photo_is_dropped_on_the_page(server: Server, run: Path, photos: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(photos[0])
    (expected,) = semco.load(run, engine="torch").predict(tmp_path / "photo.png")
    content = base64.b64encode(photos[0]).decode()
    with Browser(tmp_path / "profile") as browser:
        browser.open(f"http://127.0.0.1:{server.port}/")
        browser.run(
            f"""fetch("data:image/png;base64,{content}").then((answer) => answer.blob()).then((blob) => {{
                const carried = new DataTransfer();
                carried.items.add(new File([blob], "photo.png", {{ type: "image/png" }}));
                document.getElementById("drop").dispatchEvent(new DragEvent("drop", {{ dataTransfer: carried }}));
            }})"""
        )
        assert browser.wait("document.querySelector('.label')?.textContent") == expected.label
        about = browser.run("document.querySelector('.about').textContent")
        assert about == f"photo.png · grouped by name: {expected.group}"
        shown = browser.run("document.querySelector('.row span:last-child').textContent")
        assert float(shown.rstrip(" %")) == pytest.approx(100 * (expected.confidence or 0), abs=0.06)


def test_a_port_that_is_in_use_and_an_unknown_host_are_named(server: Server, run: Path) -> None:
    with pytest.raises(UserError, match=f"port {server.port} of 127.0.0.1 cannot be used: Address already in use; "):
        bind(port=server.port)
    with pytest.raises(UserError, match=r"host no\.such\.host\.invalid cannot be used: .*; choose another one"):
        bind("no.such.host.invalid")
    done = CliRunner().invoke(app, ["serve", str(run), "--port", str(server.port)])
    assert isinstance(done.exception, UserError)
    assert "http" not in done.output  # no address is printed that nobody answers at


def test_the_parts_of_an_answer_are_sent_at_once() -> None:
    """Without TCP_NODELAY, the body of each answer waits for the client to acknowledge the head, about 40 ms."""

    async def option() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted = writer.get_extra_info("socket")
            found.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with bind() as listening:
            address = listening.getsockname()
            async with await asyncio.start_server(answer, sock=listening):
                _, writer = await asyncio.open_connection(*address)
                writer.close()
                return await found

    assert asyncio.run(option()) != 0


def test_photos_of_no_class(run: Path, photos: list[bytes]) -> None:
    """A threshold above every cosine rejects all photos, one below every cosine none."""
    predictor = semco.load(run, engine="torch")
    thresholds = (Threshold(0.05, 1.01), Threshold(0.1, -1.01))
    predictor.engine.about = replace(predictor.about, thresholds=thresholds)  # type: ignore[misc]
    network = predictor.engine._network  # type: ignore[attr-defined]
    network.familiarity = Familiarity(torch.eye(network.backbone.out_features))
    server = Server(run, predictor=predictor)
    try:
        answers = {share: server.ask(photos[0], f"/predict?none_of_these={share}") for share in ("0.05", "0.1")}
        plain = server.ask(photos[0])
        assert answers["0.1"] == plain
        (rejected,), (known,) = (answer["predictions"] for _, answer in (answers["0.05"], plain))
        assert (rejected["label"], rejected["confidence"], rejected["group"]) == (
            "none of these",
            None,
            "none of these",
        )
        assert rejected["top"] == known["top"]
        for value, sentence in (("0.2", "can reject 0.05, 0.1"), ("x", "may be rejected, for example 0.05")):
            status, content = server.ask(photos[0], f"/predict?none_of_these={value}")
            assert (status, sentence in content["error"]) == (400, True)
    finally:
        server.close()


def test_a_model_without_thresholds_says_so(server: Server, photos: list[bytes]) -> None:
    status, content = server.ask(photos[0], "/predict?none_of_these=0.05")
    assert (status, "cannot answer 'none of these'" in content["error"]) == (400, True)
