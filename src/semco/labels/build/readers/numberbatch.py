"""Read ConceptNet Numberbatch files: GloVe's format with terms as ``/c/en/term`` (all languages) or plain (English)."""

from __future__ import annotations

from pathlib import Path

from semco.download import Report, no_report
from semco.errors import UserError
from semco.labels.build.readers.glove import read_glove
from semco.labels.build.readers.vectors import VectorSet
from semco.labels.matching.terms import normalise


def read_numberbatch(path: Path, limit: int | None = None, report: Report = no_report) -> VectorSet:
    """Read the first ``limit`` English terms of a Numberbatch file (plain, .gz, .zip)."""
    vectors = read_glove(path, limit, report, _english_term, "reading Numberbatch")
    if not vectors.terms:
        raise UserError(f"{path} contains no English terms (/c/en/...); use a Numberbatch file with English terms.")
    return vectors


def _english_term(label: str) -> str | None:
    """Return the normalised term, or None for a term in another language."""
    if not label.startswith("/c/"):
        return normalise(label)
    parts = label.split("/")
    return normalise(parts[3]) if parts[2] == "en" and len(parts) > 3 else None
