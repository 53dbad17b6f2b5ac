"""ConceptNet Numberbatch text: GloVe's layout with ``/c/en/term`` (all languages) or plain English terms."""

from __future__ import annotations

from pathlib import Path

from semco.errors import UserError
from semco.labels.readers.glove import read_glove
from semco.labels.readers.stream import Report, silent
from semco.labels.readers.vectors import VectorSet
from semco.labels.terms import normalise


def read_numberbatch(path: Path, limit: int | None = None, report: Report = silent) -> VectorSet:
    """The English terms of a Numberbatch file (plain, .gz, .zip)."""
    found = read_glove(path, limit, report, _english, "reading Numberbatch")
    if not found.terms:
        raise UserError(f"{path} holds no English terms (/c/en/...).")
    return found


def _english(label: str) -> str | None:
    if not label.startswith("/c/"):
        return normalise(label)
    parts = label.split("/")
    return normalise(parts[3]) if parts[2] == "en" and len(parts) > 3 else None
