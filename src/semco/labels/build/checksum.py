"""SHA-256 checksums of large files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from semco.labels.build.progress import Report

_CHUNK = 2**22


def sha256(path: Path, stage: str, report: Report) -> str:
    """Return the SHA-256 of a file as hexadecimal digits, reporting the bytes read under the name ``stage``."""
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            report(stage, done, total)
    return digest.hexdigest()
