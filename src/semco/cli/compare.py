"""``semco compare``: several methods, several seeds, everything else equal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from semco.cli import options
from semco.cli.running import judged

if TYPE_CHECKING:
    from semco.comparison import Cell, HeadRow, Outcome


def compare(
    *,
    data: options.Data = None,
    methods: Annotated[str, typer.Option(help="Methods or recipes; the others are measured by the first: a,b,c.")],
    seeds: Annotated[str, typer.Option(help="One run of each method for each seed.")] = "0,1,2",
    out: Annotated[Path, typer.Option(help="Where the runs go; started again, finished ones are skipped.")],
    labels_per_class: options.LabelsPerClass = None,
    labels: options.Labels = None,
    classes: options.Classes = None,
    data_root: options.DataRoot = None,
    backbone: options.Backbone = None,
    steps: options.Steps = None,
    batch_size: options.BatchSize = None,
    mu: options.Mu = None,
    setting: options.Settings = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs side by side.")] = 1,
) -> None:
    """Compare methods on the same splits, initial weights and views; ends in a table, a CSV and a page of curves."""
    from semco.comparison import check_data, make_cells, pseudo_label_rows, run_cells, seed_list, write_csv
    from semco.recipes import RECIPES
    from semco.report import summary_table, write_report
    from semco.training.signals import Stopped

    options.require_data(data, any(name in RECIPES for name in methods.split(",")), setting or ())
    said = options.given(
        classes,
        data=data,
        labels_per_class=labels_per_class,
        labels=labels,
        data_root=data_root,
        backbone=backbone,
        steps=steps,
        batch_size=batch_size,
        mu=mu,
    )
    cells = make_cells(methods.split(","), seed_list(seeds), out, said, setting or ())
    console = Console(stderr=True)
    with console.status("looking at the data"):
        check_data(cells)

    def begin(number: int, cell: Cell) -> None:
        console.print(f"{cell.name}: run {number} of {len(cells)}", style="dim", markup=False, highlight=False)

    def tell(outcome: Outcome) -> None:
        said = judged(outcome.result) if outcome.result is not None else None
        ended = outcome.problem or (" ".join(said) if said else "no image to test on")
        console.print(f"{outcome.cell.name}: {ended}", markup=False, highlight=False, soft_wrap=True)

    try:
        outcomes = run_cells(cells, jobs, tell, begin)
    except Stopped as stopped:
        console.print(f"{stopped}. The same command goes on.", highlight=False)
        raise typer.Exit(stopped.exit_code) from None
    runs = [outcome.cell.run.path for outcome in outcomes if outcome.result is not None]
    write_csv(outcomes, out / "results.csv")
    if runs:
        Console().print(summary_table(runs))
        if rows := pseudo_label_rows(outcomes):
            Console().print(pseudo_label_table(rows))
        page = write_report(runs, out / "report.html", f"Comparison on {Path(cells[0].config.data.source).name}")
        Console(soft_wrap=True).print(f"open {page}", markup=False, highlight=False)
    failed = len(outcomes) - len(runs)
    if failed:
        console.print(f"{failed} of {len(outcomes)} runs failed; the same command tries them again.", style="red")
        raise typer.Exit(1)


def pseudo_label_table(rows: list[HeadRow]) -> Table:
    from semco.comparison import KINDS, MEASURES
    from semco.training.statistics import SUREST_GROUPED

    title = "pseudo-labels of the final model for the pool: retained, of these right, of these in the right group; %"
    columns = ("head", "all classes", "grouped classes", "others", "surest fifth of grouped: right")
    table = Table(Column(overflow="fold"), *columns, title=title, box=None)
    for row in rows:
        cells = [", ".join(_percent(row.means[f"{measure}{kind}"]) for measure in MEASURES) for kind in KINDS]
        table.add_row(row.variant, row.head.replace("_", "-"), *cells, _percent(row.means[SUREST_GROUPED]))
    return table


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f}"
