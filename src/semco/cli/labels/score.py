"""``semco labels score``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semco.cli.labels.display import print_json, print_line, print_table, print_title
from semco.cli.labels.options import AsJson, Eps, GroupRule, Vectors, store_from_options


def score(
    vectors: Vectors = None,
    eps: Eps = None,
    rule: GroupRule = None,
    looks: Annotated[
        Path | None, typer.Option(help="Visual similarity of the classes, a .npy file from scripts/train_looks.py.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Measure a store: on CIFAR-100's class names, and on three lists of names that look alike."""
    from dataclasses import asdict

    from semco.groups.look_alikes import FILES, agreement
    from semco.groups.score import score as measure

    source = store_from_options(vectors)
    found = measure(source, eps, looks, rule)
    agreements = {part: agreement(source, part, eps, rule) for part in FILES}
    if json:
        print_json({**asdict(found), "look_alikes": {part: asdict(one) for part, one in agreements.items()}})
        return
    print_title(f"CIFAR-100's class names at eps {found.eps:.3g}")
    rows = [
        ("pairwise F1 with the paper's groups", f"{found.f1:.2f}"),
        ("grouped pairs", str(found.pairs)),
        ("share of them within one superclass", f"{found.inside:.0%}"),
    ]
    if found.looks is not None and found.alike is not None:
        rows.append(("rank correlation with visual similarity", f"{found.looks:.3f}"))
        rows.append(("average precision at finding look-alikes", f"{found.alike:.3f}"))
    rows += [
        (f"look-alikes, {part}: precision and recall", f"{one.precision:.2f}, {one.recall:.2f}")
        for part, one in agreements.items()
    ]
    print_table(("measure", "value"), rows)
    for members in found.groups:
        print_line(f"  {', '.join(members)}")
