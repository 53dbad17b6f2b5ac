"""The page about the groups of some classes: what to look at before training, and how to change it."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from semco.files import atomic_path
from semco.groups.explain import Pair, review
from semco.groups.grouping import Groups
from semco.labels.embeddings import LabelEmbeddings
from semco.report.sections import page_template


def write_label_page(embeddings: LabelEmbeddings, groups: Groups, path: Path) -> None:
    """Write the page; it is one file and loads nothing."""
    text = page_template("label_groups.html").render(
        title=f"{len(groups.names)} classes, {groups.count} groups",
        review=review(embeddings, groups),
        groups=groups,
        source=embeddings.source,
        notes=(*embeddings.notes, *groups.notes),
        needed=1 - groups.eps,
        pair_option=pair_option,
        alias_option=lambda name: quote(f"{name}=TERM"),
    )
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def pair_option(pair: Pair) -> str:
    """Return the value of an option that takes the two names of a pair, quoted for a shell.

    It is empty if a name has a comma, which the option would take for the end of the name.
    """
    return "" if any("," in name for name in pair.names) else quote(",".join(pair.names))
