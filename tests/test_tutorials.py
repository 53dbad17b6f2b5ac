"""The tutorials work as written: every block of Python and shell is run, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
PAGES = sorted(TUTORIALS.glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the language and the text of the blocks of a page that are to be run; ``text`` is only shown."""
    found: list[tuple[str, str]] = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(language, text) for language, text in found if language != "text"]


def command(language: str, text: str) -> list[str]:
    if language == "python":
        return [sys.executable, "-c", text]
    # What the page installs is installed here already.
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("pip install")]
    return ["bash", "-euc", "".join(lines)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_have_a_language(page: Path) -> None:
    assert {language for language, _ in BLOCK.findall(page.read_text(encoding="utf-8"))} <= {"bash", "python", "text"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for language, text in blocks(page):
        done = subprocess.run(
            command(language, text), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
