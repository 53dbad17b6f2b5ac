"""``semco datasets``: the registered data sets, and their download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semco.cli.app import App
from semco.cli.labels.display import print_json, print_line, print_table, progress_bars

app = App(help="List the registered data sets; 'semco datasets fetch NAME --to DIR' downloads one.")


@app.callback(invoke_without_command=True)
def datasets(
    context: typer.Context,
    data_root: Annotated[Path, typer.Option(help="The folder in which to look for their files.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """List the registered data sets: sizes, whether they are there, and what to put where."""
    from semco.data.sources.fetch import describe_datasets

    if context.invoked_subcommand is not None:
        return
    rows = describe_datasets(data_root)
    if as_json:
        print_json(rows)
        return
    columns = ("data set", "classes", "training", "test", "pixels", "there", "backbone")
    print_table(columns, [[row[name] for name in columns] for row in rows])
    for row in rows:
        name = row["data set"]
        command = f"semco datasets fetch {name} --to DIR; " if row["fetch"] else ""
        print_line(f"\n{name}: {row['title']}\n  put into --data-root: {row['layout']}")
        print_line(f"  {command}licence: {row['licence']}")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A data set that 'semco datasets' lists.")],
    to: Annotated[Path, typer.Option(help="The folder for its files.")],
) -> None:
    """Download and unpack a data set; run it again to resume an interrupted download."""
    from semco.config import REGISTERED_DATASETS
    from semco.data.sources.fetch import fetch_dataset

    with progress_bars() as report:
        folder = fetch_dataset(name, to, report)
    print_line(f"{name} is in {folder}; licence: {REGISTERED_DATASETS[name].licence}")
    print_line(f"train on it: semco train {name} --data-root {folder}")
