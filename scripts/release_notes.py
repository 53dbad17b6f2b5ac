"""Print what CHANGELOG.md says about one version: ``python scripts/release_notes.py v0.2.0``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def notes_of(version: str, changelog: str) -> str:
    """Return what the changelog says about a version such as 0.2.0 or v0.2.0."""
    number = re.escape(version.removeprefix("v"))
    found = re.search(rf"^## {number}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no part on {version}")
    return found[1].strip()


if __name__ == "__main__":
    print(notes_of(sys.argv[1], CHANGELOG.read_text(encoding="utf-8")))
