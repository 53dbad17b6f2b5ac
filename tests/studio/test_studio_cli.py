"""``semco studio`` and ``semco demo --studio`` on the command line."""

from __future__ import annotations

import html
import os
import re
import signal
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest

from tests.cli.in_process import run_here
from tests.forking import forked_python
from tests.studio.studio_server import copy_fruit


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses to which the files lead that the browser would open; the Studio ends at once."""
    addresses: list[str] = []

    def look(address: str) -> bool:
        """Read what the browser is told to open, which must show the token to its owner alone."""
        file = Path(unquote(address.removeprefix("file://")))
        assert "token" not in address
        assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]
        found = re.search(r'url=([^"]+)"', file.read_text())
        assert found is not None
        addresses.append(html.unescape(found[1]))
        return True

    monkeypatch.setattr("semco.studio.server.app_server", lambda _app: SimpleNamespace(run=lambda _sockets: None))
    monkeypatch.setattr("webbrowser.open", look)
    return addresses


def test_a_project_is_made_beside_the_command(tmp_path: Path, shown: list[str]) -> None:
    copy_fruit(tmp_path / "photos", ("orange", "watermelon"), 2)
    done = run_here("studio", "photos", "--classes", "orange, watermelon", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 photos" in done.stderr
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", shown[0])
    assert {path.name for path in tmp_path.iterdir()} == {"photos", "photos-studio"}
    assert list((tmp_path / "photos-studio").glob(".open-*")) == []
    again = run_here("studio", "photos", "--classes", "orange,pear", "--no-browser", cwd=tmp_path)
    assert (again.returncode, len(shown)) == (0, 1)
    journal = (tmp_path / "photos-studio/journal.jsonl").read_text()
    assert [journal.count(f'"{name}"') for name in ("orange", "watermelon", "pear")] == [2, 2, 1]


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    copy_fruit(tmp_path / "photos", ("orange",), 1)
    for arguments, sentence in (
        (["none"], "there is no folder none"),
        (["empty"], "contains no photos"),
        (["photos", "--project", "photos/inside"], "inside the photos"),
        (["photos", "--classes", "a,a"], "already"),
        (["photos", "--classes", os.fsdecode(b"caf\xe9")], "no character"),
    ):
        done = run_here("studio", *arguments, cwd=tmp_path)
        assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr


def test_the_demo_shows_bundled_photos(tmp_path: Path, shown: list[str]) -> None:
    done = run_here("demo", "--studio", cwd=tmp_path)
    assert (done.returncode, len(shown)) == (0, 1), done.stderr
    assert "420 photos" in done.stderr
    assert '"satsuma"' in (tmp_path / "fruit-studio/journal.jsonl").read_text()


def test_ctrl_c_ends_the_studio(tmp_path: Path) -> None:
    copy_fruit(tmp_path / "photos", ("orange",), 1)
    command = [forked_python(), "-m", "semco", "studio", "photos", "--no-browser"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "open http" not in (line := process.stderr.readline()):
        assert line, "the Studio ended"
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    process.stderr.close()
    assert (process.wait(240), rest) == (130, "stopped\n")
