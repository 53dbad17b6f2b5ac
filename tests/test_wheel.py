"""The wheel, installed into an empty environment outside of the repository, does what the README says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = "pretrained,onnx,serve"
# Bytes of the wheel; most of it are label vectors and bundled images.
MOST_BYTES = 42_000_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]  # pip may take long on a busy machine


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the programs of a new environment that holds the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("semco-*.whl")
    assert wheel.stat().st_size < MOST_BYTES
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    programs = folder / "venv" / "bin"
    install = [programs / "python", "-I", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*install, f"{wheel}[{EXTRAS}]"], check=True)
    return programs


def semco(programs: Path, folder: Path, *arguments: str) -> str:
    """Run a command in ``folder`` without anything of the repository, and return what it prints."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    command = [str(programs / "semco"), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_the_way_from_the_demo_to_a_service(installed: Path, tmp_path: Path) -> None:
    assert "semco studio photos/" in semco(installed, tmp_path)
    semco(installed, tmp_path, "demo", "--out", "demo")
    assert (tmp_path / "demo" / "report.html").is_file()
    assert "tabby" in semco(installed, tmp_path, "labels", "lookup", "tabby")
    options = ["--labels-per-class", "4", "--backbone", "wrn-10-1", "--batch-size", "16", "--steps", "20"]
    trained = semco(installed, tmp_path, "train", "fashion-mini", *options, "--out", "run", "--json")
    assert json.loads(trained.splitlines()[-1])["steps"] == 20
    semco(installed, tmp_path, "export", "run", "--to", "model.onnx")
    assert (tmp_path / "model.onnx").stat().st_size > 10_000
    assert _answer_of_service(installed, tmp_path)["status"] == "ok"


def _answer_of_service(programs: Path, folder: Path) -> dict[str, object]:
    port = 18_000 + os.getpid() % 1_000
    command = [str(programs / "semco"), "serve", "run", "--port", str(port)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as service:
        try:
            for _ in range(120):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                        found: dict[str, object] = json.load(answer)
                        return found
                except OSError:
                    time.sleep(0.5)
        finally:
            service.terminate()
    raise AssertionError("the service does not answer")
