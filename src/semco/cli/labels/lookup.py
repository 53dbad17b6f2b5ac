"""``semco labels lookup`` and ``semco labels nearest``."""

from __future__ import annotations

from typing import Annotated

import typer

from semco.cli.labels.display import print_json, print_notes, print_table, print_title
from semco.cli.labels.options import Aliases, AsJson, Vectors, store_from_options


def lookup(
    names: Annotated[list[str], typer.Argument(help="Class names.")],
    vectors: Vectors = None,
    alias: Aliases = None,
    near: Annotated[int, typer.Option(min=0, help="Number of nearest terms to show.")] = 4,
    json: AsJson = False,
) -> None:
    """Show what a run with these class names uses: the term of each, its route, the nearest terms; doubtful first."""
    source = store_from_options(vectors, alias)
    found, notes = source.neighbours(names, near)
    print_notes(notes)
    if json:
        print_json({one.match.name: one.as_dict() for one in found})
    else:
        rows = [
            (
                one.match.name,
                one.match.term,
                one.match.how,
                f"{one.match.confidence:.1f}",
                ", ".join(f"{term} {cos:.2f}" for term, cos in one.nearest),
            )
            for one in found
        ]
        print_table(("name", "term", "route", "confidence", "nearest terms"), rows)


def nearest(
    term: Annotated[str, typer.Argument(help="A term or class name.")],
    vectors: Vectors = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of terms to show.")] = 20,
    json: AsJson = False,
) -> None:
    """Show the terms with the largest cosine to a term."""
    source = store_from_options(vectors)
    found, _ = source.neighbours([term], count)
    if not found[0].match.terms:
        raise source.lookup.not_found([term])
    if json:
        print_json(found[0].as_dict())
        return
    print_title(f"{found[0].match.term} ({found[0].match.how})")
    rows = [(other, f"{cosine:.3f}", "█" * round(30 * max(cosine, 0))) for other, cosine in found[0].nearest]
    print_table(("term", "cosine", ""), rows)
