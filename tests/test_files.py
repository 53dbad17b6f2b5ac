"""Reading of files by a path of the user: only regular files, and a sentence for everything else."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from semco.errors import UserError
from semco.files import (
    atomic_folder,
    atomic_path,
    exists,
    expand_home,
    open_in_place,
    open_regular,
    read_json,
    read_json_object,
    read_text,
    write_json,
)


def test_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xc3\xa9")
    (tmp_path / "link").symlink_to("a")
    with open_regular(tmp_path / "link") as stream:
        assert stream.read() == b"caf\xc3\xa9"
    assert read_text(tmp_path / "a", most_bytes=5) == "café"


def test_other_kinds_of_files_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    for name, message in {
        "pipe": "is a named pipe, not a regular file; give the path of a regular file",
        "link": "is a named pipe",
        "socket": "is a socket",
        ".": "is a folder",
        "/dev/zero": "is a device",
        "nothing": "is missing",
        "loop": "cannot read .*: Too many levels of symbolic links",
        "x" * 300: "cannot read .*: File name too long",
        "a\0b": "cannot read .*: embedded null",
    }.items():
        with pytest.raises(UserError, match=message):
            open_regular(tmp_path / name)


def test_a_file_of_another_size_or_encoding(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match="is not a text file in UTF-8"):
        read_text(tmp_path / "a")
    with pytest.raises(UserError, match="has more than the 3 bytes that are read"):
        read_text(tmp_path / "a", most_bytes=3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, r"is not valid JSON \(its values are nested too deep\)"),
        (b'{"a":' * 100_000, r"is not valid JSON \(its values are nested too deep\)"),
        (b"9" * 6000, r"is not valid JSON \(Exceeds the limit"),
        (b"{", "is not valid JSON"),
        (b"", "is not valid JSON"),
        (b'"\xe9"', "is not a text file in UTF-8"),
    ],
)
def test_json_that_is_none(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError, match=rf"a\.json {message}"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("[]", "a list"),
        ("1", "a number"),
        ("1.5", "a number"),
        ('"x"', "a text"),
        ("null", "null"),
        ("true", "true or false"),
    ],
)
def test_json_that_is_no_object(tmp_path: Path, content: str, kind: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UserError, match=rf"a\.json contains {kind}, not a JSON object"):
        read_json_object(tmp_path / "a.json")


def test_a_json_object_is_returned(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": [1]}')
    assert read_json_object(tmp_path / "a.json") == {"a": [1]}


def test_paths_that_cannot_exist_do_not_exist(tmp_path: Path) -> None:
    assert exists(tmp_path)
    for name in ("nothing", "x" * 300, "a\0b"):
        assert not exists(tmp_path / name)
    assert expand_home(Path("~nobody-of-this-name/a")) == Path("~nobody-of-this-name/a")
    assert expand_home(Path("~/a")) == Path.home() / "a"


def test_files_are_written_in_place(tmp_path: Path) -> None:
    for text in ("a", "b"):
        with open_in_place(tmp_path / "file", "a") as stream:
            stream.write(text)
    assert (tmp_path / "file").read_text() == "ab"
    with open_in_place(tmp_path / "file", "wb") as stream:
        stream.write(b"c")
    assert (tmp_path / "file").read_text() == "c"
    (tmp_path / "link").symlink_to("file")
    for name, message in {
        "link": "it is a link",
        "/dev/null": "it is a device",
        "x" * 300: "File name too long",
    }.items():
        with pytest.raises(UserError, match=f"cannot write .*: {message}"):
            open_in_place(tmp_path / name, "a")


def test_the_middle_of_a_long_message_is_left_out() -> None:
    message = str(UserError("the file " + 10_000 * "x" + " is damaged; restore it."))
    assert len(message) < 1600
    assert message.startswith("the file x")
    assert message.endswith("x is damaged; restore it.")


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_new_files_have_the_permissions_that_the_user_wants(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write_json(tmp_path / "a.json", {})
        with atomic_path(tmp_path / "b.safetensors") as temporary:
            save_file({"x": torch.zeros(1)}, temporary)
        open_in_place(tmp_path / "c.log", "a").close()
    finally:
        os.umask(before)
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {
        "a.json": mode,
        "b.safetensors": mode,
        "c.log": mode,
    }


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "folder"
    with atomic_folder(target) as temporary:
        (temporary / "1").mkdir()
        (temporary / "1" / "file").write_text("new")
        assert not target.exists()
    assert (target / "1" / "file").read_text() == "new"

    def fail() -> None:
        with atomic_folder(target) as temporary:
            (temporary / "half").touch()
            raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped"):
        fail()
    assert [path.name for path in target.iterdir()] == ["1"]
    with atomic_folder(target) as temporary:
        (temporary / "other").touch()
    assert [path.name for path in target.iterdir()] == ["other"]
    assert [path.name for path in target.parent.iterdir()] == ["folder"]
