"""``semco labels build`` and ``semco labels fetch``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semco.cli.labels.display import print_line, print_store, progress_bars
from semco.cli.labels.options import parse_relations


def build(
    out: Annotated[Path, typer.Option(help="The folder of the new store.")],
    conceptnet: Annotated[Path | None, typer.Option(help="ConceptNet assertions (.csv, .gz).")] = None,
    glove: Annotated[Path | None, typer.Option(help="GloVe text file (.txt, .gz, .zip).")] = None,
    word2vec: Annotated[Path | None, typer.Option(help="word2vec binary file (.bin, .gz).")] = None,
    preset: Annotated[
        str, typer.Option(metavar="ours|paper|glove", help="What is built: our vectors, the paper's, or raw GloVe.")
    ] = "ours",
    relations: Annotated[
        str | None, typer.Option(help="Relations to use, separated by commas; IsA=0.5 sets the weight of one.")
    ] = None,
    dim: Annotated[int, typer.Option(help="Dimension of the stored vectors.")] = 128,
    max_words: Annotated[int | None, typer.Option(help="Largest number of terms; the most frequent are kept.")] = None,
) -> None:
    """Build a store from GloVe and word2vec vectors and the ConceptNet graph; run it again to resume a build."""
    from semco.labels.build import build_preset

    weights = None if relations is None else parse_relations(relations)
    files = {"glove": glove, "word2vec": word2vec, "conceptnet": conceptnet}
    with progress_bars() as report:
        store = build_preset(preset, files, out, weights, dim, max_words, report)
    print_store(store)


def fetch(
    what: Annotated[str, typer.Argument(metavar="glove|glove-6b|word2vec|conceptnet", help="The file to download.")],
    to: Annotated[Path, typer.Option(help="The folder for the file.")],
) -> None:
    """Download an official file; run it again to resume an interrupted download."""
    from semco.labels.build.fetch import SOURCES
    from semco.labels.build.fetch import fetch as download

    with progress_bars() as report:
        path = download(what, to, report)
    print_line(f"{path}: {path.stat().st_size:,} bytes, licence {SOURCES[what].licence}")
