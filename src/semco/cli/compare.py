"""``semco compare``: several methods, several seeds, everything else equal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from semco.cli.options import EngineOptions, RunOptions, complete_methods, default_recipe, with_options

if TYPE_CHECKING:
    from semco.experiment.comparison import Cell, HeadRow, Outcome
    from semco.experiment.engines import Engine, Shard
    from semco.experiment.lengths import Equal

LONGEST_NAME = 16  # characters of a line of a name in the table of pseudo-labels, which fits 80 columns


@with_options(RunOptions, EngineOptions)
def compare(
    options: RunOptions,
    engine: EngineOptions,
    *,
    methods: Annotated[
        str,
        typer.Option(
            help="Methods, or recipes and settings joined by +: a,b+c,a+training.mu=7. The first is the base.",
            autocompletion=complete_methods,
        ),
    ],
    vary: Annotated[
        list[str] | None, typer.Option(help="dotted.key=value,value: every method with each value; may be repeated.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="One run per method and seed.")] = "0,1,2",
    out: Annotated[Path, typer.Option(help="Folder of the runs; started again, finished runs are skipped.")],
    from_scratch: Annotated[bool, typer.Option("--from-scratch", help="Do not start from pretrained weights.")] = False,
    equal: Annotated[
        Literal["steps", "time"], typer.Option(help="What is equal if no length is given: steps, or time here.")
    ] = "steps",
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="Time for a run of the slowest method, if no length is given.")
    ] = None,
) -> None:
    """Compare methods on the same splits, initial weights and views; ends in a table, a CSV and a page of curves."""
    from semco.experiment.comparison import vary_fields

    variants = vary_fields(methods.split(","), vary or [])
    chosen, shard = engine.choose(say), engine.part()
    cells, lengths = plan_variants(options, variants, seeds, out, from_scratch, equal, minutes, shard)
    outcomes = run_all(cells, chosen)
    if shard is None:
        write_tables(outcomes, out, Path(cells[0].config.data.source).name, lengths)
    refuse_failures(outcomes)
    if shard is not None:
        say(f"shard {engine.shard}: {len(cells)} run(s) done. After all shards, the command without it has the tables")
        return
    if vary:
        write_analysis({cell.run.path: cell.variant for cell in cells}, out)


def write_analysis(variants: Mapping[Path, str], out: Path) -> None:
    """Write the page with the figure of error against the field that varies."""
    from semco.report.analysis.sections import analysis_sections
    from semco.report.sections import write_sections

    sections = analysis_sections(list(variants), has_images=False, variants=variants)
    page = write_sections(out / "analysis.html", "What pseudo-labelling did", f"Runs in {out}.", sections)
    Console(soft_wrap=True).print(f"open {page}", markup=False, highlight=False)


def plan_variants(
    options: RunOptions,
    variants: Sequence[str],
    seeds: str,
    out: Path,
    from_scratch: bool,
    equal: Equal,
    minutes: float | None,
    shard: Shard | None,
) -> tuple[list[Cell], str | None]:
    """Return every variant with every seed, or the shard of them, and a line about their length if it was open."""
    from semco.experiment.comparison import check_data, check_requests, make_cells, names_recipe, parse_seeds
    from semco.experiment.engines import refuse_to_time
    from semco.experiment.lengths import with_lengths
    from semco.files import remove_leftovers

    has_recipe = any(names_recipe(variant) for variant in variants)
    options.require_data(has_recipe)
    recipe = None if has_recipe or from_scratch or options.backbone else default_recipe(options.data)
    values = options.values(pretrained="none" if from_scratch else None)
    cells = make_cells(variants, parse_seeds(seeds), out, values, options.settings, recipe)
    show_differences(cells)
    if shard is None:  # the files of other shards may be in the making
        remove_leftovers(out)
    with Console(stderr=True).status("reading the data"):
        check_data(cells if shard is None else shard.of(cells))
    with Console(stderr=True).status("timing a step of each method"):
        cells, lengths = with_lengths(cells, out, equal, minutes, None if shard is None else refuse_to_time)
    cells = cells if shard is None else shard.of(cells)
    check_requests(cells)
    return cells, None if lengths is None else lengths.describe()


def refuse_failures(outcomes: Sequence[Outcome]) -> None:
    """Exit with code 1 if a run failed."""
    failed = sum(outcome.result is None for outcome in outcomes)
    if failed:
        message = f"{failed} of {len(outcomes)} runs failed; the same command tries them again."
        Console(stderr=True).print(message, style="red")
        raise typer.Exit(1)


def say(text: str) -> None:
    """Print a line about the work."""
    Console(stderr=True).print(text, style="dim", markup=False, highlight=False, soft_wrap=True)


def show_differences(cells: Sequence[Cell]) -> None:
    """Say in which fields, besides method and label vectors, the runs differ, and what else matters."""
    from semco.experiment.comparison import differing_fields, notes_on

    for note in notes_on(cells):
        say(note)
    for name, values in differing_fields(cells).items():
        say(f"the runs also differ in {name}: {', '.join(values)}")


def run_all(cells: Sequence[Cell], engine: Engine) -> list[Outcome]:
    """Run the cells and print a line when each begins and ends."""
    from semco.run.result import describe_accuracy
    from semco.training.signals import Stopped

    console = Console(stderr=True)

    def on_begin(number: int, cell: Cell) -> None:
        say(f"{cell.name}: run {number} of {len(cells)}")

    def on_end(outcome: Outcome) -> None:
        ending = outcome.problem if outcome.result is None else describe_accuracy(outcome.result)
        console.print(f"{outcome.cell.name}: {ending}", markup=False, highlight=False, soft_wrap=True)

    try:
        return engine.run(cells, on_end, on_begin)
    except Stopped as stopped:
        console.print(f"{stopped}. Run the same command to continue.", highlight=False)
        raise typer.Exit(stopped.exit_code) from None


def write_tables(outcomes: Sequence[Outcome], out: Path, data: str, lengths: str | None = None) -> None:
    """Write the CSV and the page, and print the tables."""
    from semco.experiment.comparison import pseudo_label_rows, write_csv
    from semco.report import summary_table, write_report
    from semco.report.names import variant_names
    from semco.report.runs import read_runs

    write_csv(outcomes, out / "results.csv")
    variants = {outcome.cell.run.path: outcome.cell.variant for outcome in outcomes if outcome.result is not None}
    if not variants:
        return
    runs = list(variants)
    Console().print(summary_table(runs, caption=lengths, variants=variants))
    if rows := pseudo_label_rows(outcomes):
        Console().print(pseudo_label_table(rows, variant_names(read_runs(runs, variants))))
    page = write_report(runs, out / "report.html", f"Comparison on {data}", variants=variants)
    Console(soft_wrap=True).print(f"open {page}", markup=False, highlight=False)


def pseudo_label_table(rows: Sequence[HeadRow], names: Mapping[str, str]) -> Table:
    """Return the table of the final pseudo-labels: a row per variant, head and kind of class that there is.

    ``names`` are those of the variants; long ones are broken, so that the table fits 80 columns.
    """
    from semco.experiment.comparison import KINDS, MEASURES
    from semco.training.statistics import CONFIDENT_ACCURACY

    surest = CONFIDENT_ACCURACY.partition("/")[0]
    numbers = (Column(name, justify="right") for name in ("retained", "correct", "right group", "surest fifth"))
    table = Table("", "head", "classes", *numbers, title="pseudo-labels of the final model", box=None)
    table.padding, table.caption_justify = (0, 1, 0, 0), "left"
    table.caption = Text(
        "correct, right group: of the retained; surest fifth: correct, of the most confident fifth of all"
    )
    for variant, of_variant in groupby(rows, key=lambda row: row.variant):
        lines = iter(_lines_of(names[variant]))
        for row in of_variant:
            head = row.head.replace("_", "-")
            for kind, classes in zip(KINDS, ("all", "grouped", "not grouped"), strict=True):
                values = [row.means.get(f"{measure}{kind}") for measure in (*MEASURES, surest)]
                if not kind or values[0] is not None:
                    table.add_row(next(lines, ""), head, classes, *map(_percent, values))
                    head = ""
        for line in lines:
            table.add_row(line)
    return table


def _lines_of(name: str) -> list[str]:
    """Return a name in lines that fit its column: it is broken before a recipe or a setting, and between words."""
    parts = [name] if len(name) <= LONGEST_NAME else re.split(r"(?=\+\w)", name)
    return [escape(line) for part in parts for line in textwrap.wrap(part, LONGEST_NAME, break_on_hyphens=False)]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
