"""``semco sweep`` and ``semco ablate``: a grid of settings, and a method without each of its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from semco.cli.compare import compare_variants
from semco.cli.options import RunOptions
from semco.cli.shared_options import with_options

Method = Annotated[str, typer.Option(help="The method, or a method with recipes joined by +.")]
Seeds = Annotated[str, typer.Option(help="One run per setting and seed.")]
Out = Annotated[Path, typer.Option(help="Folder of the runs; started again, finished runs are skipped.")]
FromScratch = Annotated[bool, typer.Option("--from-scratch", help="Do not start from pretrained weights.")]
Jobs = Annotated[int, typer.Option(min=1, help="Runs side by side.")]


@with_options(RunOptions)
def sweep(
    options: RunOptions,
    *,
    over: Annotated[list[str], typer.Option(help="dotted.key=value,value: a field and its values; may be repeated.")],
    out: Out,
    method: Method = "semco",
    seeds: Seeds = "0,1,2",
    from_scratch: FromScratch = False,
    jobs: Jobs = 1,
) -> None:
    """Train every combination of settings; ends in a table, a CSV, a page and the figure of error against a field."""
    from semco.experiment.comparison import sweep_variants

    _run(options, sweep_variants(method, over), seeds, out, from_scratch, jobs)


@with_options(RunOptions)
def ablate(
    options: RunOptions,
    *,
    out: Out,
    method: Method = "semco",
    seeds: Seeds = "0,1,2",
    from_scratch: FromScratch = False,
    jobs: Jobs = 1,
) -> None:
    """Train a method without grouping, without co-training, without both, and with one-hot targets."""
    from semco.experiment.comparison import ablation_variants

    _run(options, ablation_variants(method), seeds, out, from_scratch, jobs)


def _run(options: RunOptions, variants: list[str], seeds: str, out: Path, from_scratch: bool, jobs: int) -> None:
    from semco.report.analysis import analysis_sections
    from semco.report.sections import write_sections

    runs = compare_variants(options, variants, seeds, out, from_scratch, jobs)
    sections = analysis_sections(runs, has_images=False)
    page = write_sections(out / "analysis.html", "What pseudo-labelling did", f"Runs in {out}.", sections)
    Console(soft_wrap=True).print(f"open {page}", markup=False, highlight=False)
