"""Commands that compile the network, as real processes with a real compiler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from semco.config import merge
from semco.training.compiler.processes import list_processes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def config_file(tiny_values: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(merge(tiny_values, {"training": {"compile": "on", "steps": 2}})))
    return path


def started(*arguments: object, home: Path) -> subprocess.Popen[str]:
    """The command, with ``home`` as the user's cache folder."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(home)}
    environment.pop("TORCHINDUCTOR_CACHE_DIR", None)
    command = [sys.executable, "-m", "semco", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def compilers(home: Path) -> list[int]:
    return [each.pid for each in list_processes() if str(home) in each.command and "semco" not in each.command.split()]


def test_a_signal_to_a_compiling_run_is_answered_and_damaged_code_compiled_again(
    config_file: Path, tmp_path: Path
) -> None:
    home, run = tmp_path / "home", tmp_path / "run"
    process = started("train", "--config", config_file, "--out", run, home=home)
    while not compilers(home):
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    before = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert time.monotonic() - before < 5
    assert process.returncode == 130, error
    assert error.splitlines()[-1] == f"stopped by SIGINT after step 0; saved. Resume with: semco resume {run}"
    assert compilers(home) == []

    _, error = (resumed := started("resume", run, home=home)).communicate(timeout=600)
    assert resumed.returncode == 0, error
    libraries = sorted(home.rglob("*.so"))
    assert len(libraries) > 3
    libraries[0].write_bytes(b"")
    libraries[1].write_bytes(libraries[1].read_bytes()[:5000])
    # Nothing is damaged that can be seen from outside: it is found out when the library is loaded.
    libraries[2].write_bytes(b"not a library" * 1000)
    _, error = (again := started("train", "--config", config_file, "--out", tmp_path / "again", home=home)).communicate(
        timeout=600
    )
    assert again.returncode == 0, error
    assert "was damaged; it was compiled again" in error
    assert (run / "metrics.jsonl").read_text().count("\n") == 2
