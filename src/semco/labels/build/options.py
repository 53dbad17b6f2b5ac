"""What the options of `semco labels build` stand for: our build, the paper's, or raw GloVe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from semco.download import Report, no_report
from semco.errors import UserError
from semco.labels.build.pipeline import build_store
from semco.labels.build.readers.glove import read_glove
from semco.labels.build.settings import RELATIONS, BuildSettings
from semco.labels.store import VectorStore


def build_from_options(
    files: Mapping[str, Path | None],
    out: Path,
    relations: Mapping[str, float] | None = None,
    choices: Mapping[str, Any] | None = None,
    *,
    is_equal: bool = False,
    infers: bool = True,
    is_glove_only: bool = False,
    max_words: int | None = None,
    report: Report = no_report,
) -> VectorStore:
    """Build the store ``out``; ``choices`` are fields of `BuildSettings`, and None stands for the default.

    Equal relation weights are 1. GloVe alone means its words, no inferred vectors, and by default neither centring nor
    scaled singular values: without iterations its raw vectors, up to a rotation.
    """
    glove, graph = files.get("glove"), files.get("conceptnet")
    if is_glove_only and glove is None:
        raise UserError("a store of GloVe alone needs the file of its vectors.")
    if graph is None and not (is_glove_only and (choices or {}).get("iterations") == 0):
        raise UserError("a build needs a ConceptNet file; only GloVe alone with 0 iterations does without it.")
    weights = RELATIONS if relations is None else relations
    if is_equal:
        weights = dict.fromkeys(weights, 1.0)
    settings = BuildSettings(singular_power=1.0, is_centred=False) if is_glove_only else BuildSettings()
    if is_glove_only or not infers:
        settings = replace(settings, translated_alpha=0.0, composed_alpha=0.0)
    settings = replace(settings, **{key: value for key, value in (choices or {}).items() if value is not None})
    keep = read_glove(glove, max_words, report).terms if is_glove_only and glove is not None and graph else None
    word2vec = None if is_glove_only else files.get("word2vec")
    return build_store(glove, word2vec, graph, out, weights, settings, max_words, keep, report)
