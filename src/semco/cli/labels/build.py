"""``semco labels build`` and ``semco labels import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from semco.cli.labels.display import print_store, progress_bars
from semco.cli.labels.options import parse_relations

Out = Annotated[Path, typer.Option(help="The folder of the new store.")]
Dim = Annotated[int, typer.Option(help="Dimension of the stored vectors.")]


def build(
    out: Out,
    conceptnet: Annotated[Path | None, typer.Option(help="ConceptNet assertions (.csv, .gz).")] = None,
    glove: Annotated[Path | None, typer.Option(help="GloVe text file (.txt, .gz, .zip).")] = None,
    word2vec: Annotated[Path | None, typer.Option(help="word2vec binary file (.bin, .gz).")] = None,
    relations: Annotated[
        str | None, typer.Option(help="Relations to use, separated by commas; IsA=0.5 sets the weight of one.")
    ] = None,
    relation_weights: Annotated[
        Literal["ours", "equal"], typer.Option(help="Weights of the relations: ours, or 1 for each (paper).")
    ] = "ours",
    alpha: Annotated[
        float | None,
        typer.Option(help="Weight of every term's own vector (paper: 1); default: the weight of its edges."),
    ] = None,
    power: Annotated[
        float | None, typer.Option(help="Power of the singular values: default 0.5; 1 is the plain SVD (paper).")
    ] = None,
    centre: Annotated[bool | None, typer.Option(help="Subtract the mean vector first (paper: no).")] = None,
    infer: Annotated[
        bool, typer.Option(help="Infer missing vectors from the other set and from a term's words (paper: no).")
    ] = True,
    dim: Dim = 128,
    iterations: Annotated[int, typer.Option(help="Iterations of retrofitting.")] = 10,
    glove_only: Annotated[
        bool, typer.Option("--glove-only", help="Use GloVe's words alone; with --iterations 0 their raw vectors.")
    ] = False,
    max_words: Annotated[int | None, typer.Option(help="Largest number of terms; the most frequent are kept.")] = None,
) -> None:
    """Build a store from GloVe and word2vec vectors and the ConceptNet graph; run it again to resume a build."""
    from semco.labels.build import build_from_options

    weights = None if relations is None else parse_relations(relations)
    choices = {"alpha": alpha, "singular_power": power, "is_centred": centre, "dim": dim, "iterations": iterations}
    with progress_bars() as report:
        store = build_from_options(
            {"glove": glove, "word2vec": word2vec, "conceptnet": conceptnet},
            out,
            weights,
            choices,
            is_equal=relation_weights == "equal",
            infers=infer,
            is_glove_only=glove_only,
            max_words=max_words,
            report=report,
        )
    print_store(store)


def import_store(
    numberbatch: Annotated[Path, typer.Argument(help="ConceptNet Numberbatch file (.txt, .gz).")],
    out: Out,
    dim: Dim = 128,
    max_words: Annotated[int | None, typer.Option(help="Largest number of terms; the first are kept.")] = None,
) -> None:
    """Build a store from a published ConceptNet Numberbatch file."""
    from semco.labels.build import import_numberbatch

    with progress_bars() as report:
        store = import_numberbatch(numberbatch, out, dim, max_words, report)
    print_store(store)
