"""Downloads of data sets from a server that misbehaves, and archives that try to write elsewhere."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType

import pytest
from typer.testing import CliRunner

from semco.cli.main import app
from semco.config import REGISTERED_DATASETS, RegisteredDataset
from semco.data.sources import fetch as fetch_module
from semco.data.sources.fetch import UNPACKED, fetch_dataset, is_present, unpack
from semco.download import Source
from semco.errors import UserError


def tar_of(content: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


CIFAR = tar_of({"cifar-10-batches-py/batches.meta": b"meta", "cifar-10-batches-py/test_batch": bytes(range(256)) * 500})


class Handler(BaseHTTPRequestHandler):
    """Serves `CIFAR`, but closes the connection of the first requests after a part of the file."""

    requests: list[str | None] = []  # noqa: RUF012 (emptied by the fixture)

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.requests.append(wanted)
        start = int(wanted[6:-1]) if wanted else 0
        body = CIFAR[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CIFAR) - 1}/{len(CIFAR)}")
        self.end_headers()
        self.wfile.write(body[: len(CIFAR) // 2] if len(self.requests) < 3 else body)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, RegisteredDataset]]:
    """Let cifar10 come from the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.requests.clear()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}/cifar-10-python.tar.gz"
    source = Source(address, "cifar-10-python.tar.gz", len(CIFAR), hashlib.sha256(CIFAR).hexdigest())
    table = {"cifar10": RegisteredDataset("CIFAR", 10, 1, 1, 32, "files", "free", files=(source,))}
    monkeypatch.setattr(fetch_module, "REGISTERED_DATASETS", MappingProxyType({**REGISTERED_DATASETS, **table}))
    yield table
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_dropped_download_is_resumed_unpacked_and_not_repeated(
    known: dict[str, RegisteredDataset], tmp_path: Path
) -> None:
    folder = fetch_dataset("cifar10", tmp_path / "new", pause=0)
    assert (folder / "cifar-10-batches-py/batches.meta").read_bytes() == b"meta"
    assert [path.name for path in folder.iterdir()] == ["cifar-10-batches-py"]
    assert len(Handler.requests) >= 2
    assert Handler.requests[1] is not None  # the second one asks for the rest
    count = len(Handler.requests)
    fetch_dataset("cifar10", folder, pause=0)
    assert len(Handler.requests) == count
    assert is_present("cifar10", folder)
    assert known


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar", "unknown data set 'cifar'; did you mean 'cifar10'"),
        ("fashion-mini", "fashion-mini is part of the package"),
        ("mini-imagenet", "mini-imagenet cannot be downloaded here .*register at image-net.org"),
    ],
)
def test_what_cannot_be_fetched(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        fetch_dataset(name, tmp_path)


def test_every_archive_is_known_to_unpack_to_something() -> None:
    archives = {s.file for d in REGISTERED_DATASETS.values() for s in d.files if s.file.endswith((".tgz", ".zip"))}
    archives |= {s.file for d in REGISTERED_DATASETS.values() for s in d.files if s.file.endswith(".tar.gz")}
    assert archives == set(UNPACKED)


class TestUnpack:
    def test_a_tar_member_outside_the_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "to"
        folder.mkdir()
        (folder / "bad.tgz").write_bytes(tar_of({"fine.txt": b"1", "../out.txt": b"2"}))
        with pytest.raises(UserError, match=r"bad.tgz cannot be unpacked"):
            unpack(folder / "bad.tgz", folder)
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["bad.tgz", "to"]

    def test_a_zip_member_outside_the_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "to"
        folder.mkdir()
        with zipfile.ZipFile(folder / "bad.zip", "w") as archive:
            archive.writestr("fine.txt", "1")
            archive.writestr("../out.txt", "2")
        with pytest.raises(UserError, match=r"leads out of the folder"):
            unpack(folder / "bad.zip", folder)
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["bad.zip", "to"]

    @pytest.mark.parametrize("name", ["bad.zip", "bad.tar.gz"])
    def test_a_damaged_archive_leaves_nothing(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(CIFAR[: len(CIFAR) // 2])
        with pytest.raises(UserError, match="cannot be unpacked"):
            unpack(tmp_path / name, tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [name]

    def test_a_zip_archive(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "real.zip", "w") as archive:
            archive.writestr("real/a.txt", "1")
        unpack(tmp_path / "real.zip", tmp_path)
        assert (tmp_path / "real/a.txt").read_text() == "1"


def test_the_list_of_data_sets(tmp_path: Path) -> None:
    (tmp_path / "real_train.txt").touch()
    shown = CliRunner().invoke(app, ["datasets", "--data-root", str(tmp_path)])
    assert shown.exit_code == 0
    lines = {line.split()[0]: line.split() for line in shown.output.splitlines() if line.strip()}
    assert lines["domainnet-real"][1:6] == ["345", "120,906", "52,041", "224", "yes"]
    assert lines["cub200"][1:6] == ["200", "5,994", "5,794", "224", "no"]
    assert lines["fashion-mini"][5] == "bundled"
    assert "semco datasets fetch cifar10 --to DIR" in shown.output
