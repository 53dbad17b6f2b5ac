"""``semco reproduce``: the tables and figures of the paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Column, Table

from semco.cli.compare import run_all, say
from semco.cli.labels.display import print_table
from semco.cli.options import EngineOptions, with_options
from semco.errors import UserError

if TYPE_CHECKING:
    from semco.experiment.comparison import Outcome
    from semco.experiment.paper.groups import GroupScores
    from semco.experiment.paper.reproduction import CellResult, PaperCell, PlannedCell

NOT_PUBLISHED = (
    "A small network, small images and few steps: not the published setting, so the numbers cannot be compared with it."
)
GROUPS = "Supplement: groups of the class names, and how many pairs of classes they share with the published ones"
PAIRS = (
    "pairs: pairs of classes in one group here; right: how many of the paper's pairs, by kind of label vectors, are "
    "among them; F1: agreement of both."
)
ERRORS = "Test error in percent, mean and standard deviation over the splits."


@with_options(EngineOptions)
def reproduce(
    engine: EngineOptions,
    *,
    what: Annotated[
        list[str], typer.Argument(help="table1, table2, table3, table4, groups, eps, fig2, fig4, ... all.")
    ],
    only: Annotated[str | None, typer.Option(help="Only these columns: cifar100-2500,cifar10-250.")] = None,
    scale: Annotated[
        Literal["full", "cpu"], typer.Option(help="The published setting, or one for two cores.")
    ] = "full",
    seeds: Annotated[str, typer.Option(help="One split per seed.")] = "0,1,2",
    data_root: Annotated[Path | None, typer.Option(help="Folder of the official files of the data sets.")] = None,
    method: Annotated[
        str, typer.Option(help="The method in place of the paper's own, for example semco_plus.")
    ] = "semco",
    setting: Annotated[list[str] | None, typer.Option("--set", help="dotted.key=value for all runs.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs; finished ones are skipped.")] = Path("runs/paper"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object: of groups, or with --dry-run.")] = False,
) -> None:
    """Train the cells of the paper's tables and figures and show our numbers beside the published ones."""
    from semco.experiment.comparison import parse_seeds
    from semco.experiment.paper.reproduction import collect, make_runs, paper_cells, plan_cells, unpublished

    names = [name for name in what if name != "groups"]
    if as_json and names and not dry_run:
        raise UserError("--json shows groups, or with --dry-run the plan of the others.")
    if not names:
        show_groups(setting or (), as_json=as_json)
        return
    cells = paper_cells(names, only.split(",") if only else (), method)
    options = {"data": {"root": str(data_root)}} if data_root is not None else {}
    numbers, chosen, shard = parse_seeds(seeds), engine.choose(say), engine.part()
    planned = plan_cells(cells, scale, numbers, options, setting or ())
    groups = (setting or ()) if {"groups", "all"} & set(what) else None
    show_plan(planned, scale, numbers, groups, as_json=as_json)
    if dry_run:
        return
    runs = make_runs(cells, scale, numbers, out, options, setting or ())
    runs = runs if shard is None else shard.of(runs)
    for run in runs:
        run.run.path.parent.mkdir(parents=True, exist_ok=True)
    outcomes = run_all(runs, chosen)
    if shard is not None:
        done = sum(outcome.result is not None for outcome in outcomes)
        say(f"shard {engine.shard}: {done} of {len(runs)} run(s) done. The command without it shows all that are")
        raise typer.Exit(int(done < len(runs)))
    is_published = scale == "full" and not setting  # published numbers stand only beside what was published
    show_results(collect(cells if is_published else unpublished(cells), outcomes), outcomes, scale, out)


def show_plan(
    planned: Sequence[PlannedCell], scale: str, seeds: Sequence[int], groups: Sequence[str] | None, *, as_json: bool
) -> None:
    """Show the cells, their steps and hours, the groups with the settings ``groups``, if any, and the totals."""
    from semco.experiment.paper.reproduction import rounded, total_hours

    if as_json:
        cells, hours = [each.to_json() for each in planned], rounded(total_hours(planned))
        typer.echo(json.dumps({"scale": scale, "seeds": list(seeds), "hours": hours, "cells": cells}))
        return
    show_cells(planned, scale)
    if groups is not None:
        show_groups(groups, as_json=False)
    show_total(planned, scale, seeds)


def show_cells(planned: Sequence[PlannedCell], scale: str) -> None:
    """Show the cells, their steps and the estimated hours."""
    from semco.experiment.paper.reproduction import total_hours

    total = total_hours(planned)
    rows = [
        (each.cell, (each.cell.published, f"{each.steps:,}", *(format_hours(each.hours[where]) for where in total)))
        for each in planned
    ]
    console = Console()
    print_cells(console, ("published", "steps", *total), rows)
    if scale == "cpu":
        console.print(NOT_PUBLISHED)
    console.print(f"\nThe columns {', '.join(total)}: hours of all splits of a cell.", highlight=False, soft_wrap=True)


def show_total(planned: Sequence[PlannedCell], scale: str, seeds: Sequence[int]) -> None:
    """Show how many runs these are and how long they take together."""
    from semco.experiment.paper.reproduction import total_hours

    estimates = ", ".join(f"{format_hours(hours)} on {where}" for where, hours in total_hours(planned).items())
    kind = "" if scale == "cpu" else " (one GPU; estimates from published step times)"
    print_line = partial(Console().print, highlight=False, soft_wrap=True)
    print_line(f"\n{len(planned)} cells, {len(seeds)} splits each, hours: about {estimates}{kind}")


def print_cells(console: Console, headings: Sequence[str], rows: Sequence[tuple[PaperCell, tuple[str, ...]]]) -> None:
    """Print a table of values for each table or figure of the paper; one fits 80 columns."""
    from semco.experiment.paper.reproduction import paper_tables

    for name, group in groupby(rows, lambda row: row[0].table):
        title = paper_tables()[name]["title"]
        console.print(f"\n{name}: {title}", style="bold", markup=False, highlight=False, soft_wrap=True)
        numbers = (Column(heading, justify="right") for heading in headings)
        table = Table("row", "column", *numbers, box=None, padding=(0, 1, 0, 0))
        row = ""
        for cell, values in group:
            table.add_row("" if cell.row == row else cell.row, cell.column, *values)
            row = cell.row
        console.print(table)


def format_hours(hours: float) -> str:
    """Return hours with two digits that mean something: 0.04, 1.3, 12, 49,600."""
    if hours < 10:
        return f"{hours:.2g}"
    return f"{round(hours, 2 - len(str(int(hours)))) if hours >= 1000 else hours:,.0f}"


def show_results(results: Sequence[CellResult], outcomes: Sequence[Outcome], scale: str, out: Path) -> None:
    """Print our numbers beside the published ones and write the page."""
    from semco.experiment.paper.reproduction import paper_tables
    from semco.report.analysis.sections import analysis_sections
    from semco.report.sections import grid_section, grids, write_sections

    console = Console(soft_wrap=True)
    cells = [(result.cell, (result.text, result.cell.published)) for result in results]
    print_cells(console, ("ours", "published"), cells)
    lead = NOT_PUBLISHED if scale == "cpu" else "Our numbers beside the published ones."
    rows = [(r.cell.table, r.cell.row, r.cell.column, r.text, r.cell.published) for r in results]
    sections = [grid_section(str(paper_tables()[name]["title"]), ERRORS, grid) for name, grid in grids(rows).items()]
    finished = [outcome.cell.run.path for outcome in outcomes if outcome.result is not None]
    for data in dict.fromkeys(outcome.cell.config.data.source for outcome in outcomes):
        own = [o.cell.run.path for o in outcomes if o.cell.config.data.source == data and o.cell.run.path in finished]
        sections += analysis_sections(own) if own else []
    page = write_sections(out / f"paper-{scale}.html", "The paper's tables and figures", lead, sections)
    console.print(f"open {page}", markup=False, highlight=False)


def show_groups(settings: Sequence[str], *, as_json: bool) -> None:
    """Print the groups of the class names and how many pairs of classes they share with the published ones."""
    from semco.config import configure
    from semco.experiment.paper.groups import compare_groups, published_groups

    labels = configure("paper", settings=settings).labels
    compared = [each for data in published_groups() for each in compare_groups(data, labels)]
    if as_json:
        typer.echo(json.dumps({"labels": labels.model_dump(mode="json"), "groups": [c.to_json() for c in compared]}))
        return
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"\ngroups: {GROUPS}", style="bold")
    for one in (one for one in compared if one.is_papers):
        console.print(f"{one.data}, eps {one.eps:g}: " + ("; ".join(map(", ".join, one.groups)) or "no groups"))
    rows = []
    for one in compared:
        eps = f"{one.eps:g}" + (" (paper)" if one.is_papers else "")
        scores = {kind: _describe_scores(score) for kind, score in one.scores.items()}
        found = sum(len(group) * (len(group) - 1) // 2 for group in one.groups)
        rows.append((one.data, eps, str(found), scores["retrofitted"], scores.get("glove", "-")))
    console.print(PAIRS)
    print_table(("data", "eps", "pairs", "retrofitted: right, F1", "GloVe: right, F1"), rows)


def _describe_scores(score: GroupScores) -> str:
    return f"{score.right} of {score.published}, {score.f1:.2f}" if score.published else "none published"
