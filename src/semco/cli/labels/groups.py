"""``semco labels lookup``, ``nearest`` and ``groups``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semco.cli.labels.display import print_json, print_line, print_notes, print_table, print_title
from semco.cli.labels.options import Aliases, AsJson, GroupOptions, Vectors, store_from_options
from semco.cli.options import with_options

if TYPE_CHECKING:
    from semco.groups.grouping import Groups
    from semco.labels import LabelEmbeddings


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


@with_options(GroupOptions)
def groups(
    options: GroupOptions,
    *,
    page: Annotated[
        Path | None, typer.Option(help="Write a page (.html) about names and groups, with the option of each change.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show the groups of classes whose label vectors are close."""
    from semco.groups.explain import groups_summary
    from semco.report.label_groups import write_label_page

    embeddings, found = options.groups()
    print_notes((*embeddings.notes, *found.notes))
    if page is not None:
        write_label_page(embeddings, found, page)
    if json:
        print_json(groups_summary(embeddings, found))
    else:
        _print_groups(embeddings, found, eps_origin="the default" if options.eps is None else "as given")


def _print_groups(embeddings: LabelEmbeddings, found: Groups, eps_origin: str) -> None:
    from semco.groups.explain import lowest_cosine, other_terms, shared_groups

    if others := other_terms(embeddings):
        print_title("Class names whose term differs from the name")
        print_table(("name", "term", "route"), others)
    shared = shared_groups(found)
    at_eps = f"at eps {found.eps:.3g} ({eps_origin})"
    if shared:
        print_title(f"Groups of more than one class {at_eps}")
        rows = [(", ".join(members), f"{lowest_cosine(embeddings, members):.2f}") for members in shared]
        print_table(("classes", "lowest cosine"), rows)
    else:
        print_title(f"No group has more than one class {at_eps}")
    alone = found.count - len(shared)
    print_line(f"{len(found.names)} classes, {found.count} groups, {alone} classes alone. {embeddings.source}.")
