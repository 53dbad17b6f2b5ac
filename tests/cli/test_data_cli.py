"""``semco data cache``: what is stored, and how it is deleted."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semco.cli.main import app
from semco.data.storage.chunks import LOCK, PROGRESS
from semco.errors import data_size


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for kind in ("pixels", "features"):
        folder = tmp_path / "semco" / kind / "key"
        folder.mkdir(parents=True)
        (folder / "data").write_bytes(bytes(50_000_000))
        (folder / PROGRESS).write_text("{}")
    return tmp_path / "semco"


def run(*options: str) -> str:
    result = CliRunner().invoke(app, ["data", "cache", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_folders_are_listed_in_full(stored: Path) -> None:
    """They are there to be copied, so that a pipe has none that is cut, nor one on two lines."""
    assert [line.split()[-1] for line in run().splitlines()[1:3]] == [
        str(stored / kind / "key") for kind in ("pixels", "features")
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (9_960, "10 kB"), (999_600, "1.0 MB"), (1.24e9, "1.2 GB")],
)
def test_sizes_of_data(count: float, text: str) -> None:
    assert data_size(count) == text


def test_stored_arrays_are_listed_and_cleared(stored: Path) -> None:
    assert "2 files, 100 MB" in run()
    rows = json.loads(run("--json"))["stored"]
    assert [(row["kind"], row["bytes"]) for row in rows] == [("pixels", 50_000_000), ("features", 50_000_000)]
    with (stored / "pixels/key" / LOCK).open("w") as stream:  # another process is making it
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert "removed 1 files, 50 MB" in run("--clear")
    assert (stored / "pixels/key").is_dir()
    assert not (stored / "features/key").exists()
    run("--clear")
    assert "0 files, 0 B" in run()
