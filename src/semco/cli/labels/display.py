"""Tables, notes, JSON and progress bars of the ``semco labels`` commands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

if TYPE_CHECKING:
    from semco.download import Report
    from semco.labels.store import VectorStore

WIDE = 1_000_000  # letters of a line that is not for a terminal


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table without borders. Nothing is cut: a terminal wraps long cells, and a file gets long lines."""
    headings = [Column(name, overflow="fold") for name in columns]
    table = Table(*headings, box=None, padding=(0, 2, 0, 0), header_style="dim")
    for row in rows:
        table.add_row(*map(escape, row))
    console = Console()
    console.width = console.width if console.is_terminal else WIDE
    console.print(table)


def print_title(text: str) -> None:
    """Print a line in bold."""
    Console().print(escape(text), style="bold")


def print_line(text: str) -> None:
    """Print a line of text."""
    Console().print(escape(text))


def print_notes(notes: Sequence[str]) -> None:
    """Print notes for the user to stderr."""
    for note in notes:
        Console(stderr=True, soft_wrap=True).print(f"[yellow]note:[/] {escape(note)}", highlight=False)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_store(store: VectorStore) -> None:
    """Print the folder and the size of a store."""
    print_line(f"{store.folder}: {store.size:,} terms, {store.dim}-d, default eps {store.default_eps:.3g}")


@contextmanager
def progress_bars() -> Iterator[Report]:
    """Yield a function that shows one progress bar per stage on stderr."""
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<32}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total)
            progress.update(tasks[stage], completed=done, total=total)

        yield report
