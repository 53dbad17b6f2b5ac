"""``semco labels tune``."""

from __future__ import annotations

from typing import Annotated

import typer

from semco.cli.labels.display import print_json, print_line, print_notes, print_table, print_title, shorten
from semco.cli.labels.options import AsJson, GroupRule, SourceOptions
from semco.cli.shared_options import with_options


@with_options(SourceOptions)
def tune(
    source: SourceOptions,
    *,
    eps: Annotated[list[float] | None, typer.Option(help="A value of eps to compare; repeatable.")] = None,
    rule: GroupRule = None,
    json: AsJson = False,
) -> None:
    """Show which classes each eps groups, and suggest an eps in a large gap between merges."""
    from dataclasses import asdict

    from semco.groups.tune import tune as compare_eps

    embeddings = source.embeddings()
    found = compare_eps(embeddings, tuple(eps) if eps else None, rule)
    print_notes(embeddings.notes)
    if json:
        print_json(asdict(found))
        return
    print_title(embeddings.source)
    rows = [
        (
            f"{one.eps:g}",
            str(one.groups),
            str(one.together),
            str(one.largest),
            shorten("; ".join(map(" + ".join, one.joined))),
        )
        for one in found.settings
    ]
    print_table(("eps", "groups", "with several classes", "largest", "new groups"), rows)
    print_line(f"Suggested eps: {found.suggested:.3f} ({found.reason}). Default of the source: {found.default:.3f}.")
    print_line(
        f"These values are of the rule {found.rule}: --rule {found.rule} --eps EPS, or labels.rule and labels.eps."
    )
