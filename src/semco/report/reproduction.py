"""Published numbers beside ours, as sections of a page: a row and a column of the paper per cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from semco.report.sections import Section

Grid = Mapping[tuple[str, str], tuple[str, str]]  # (row, column) -> ours, published


def grid_section(title: str, lead: str, grid: Grid) -> Section:
    """Return a table with one cell per row and column of the paper: our error, and the published one in brackets."""
    rows = list(dict.fromkeys(row for row, _ in grid))
    columns = list(dict.fromkeys(column for _, column in grid))
    cells = tuple((row, *(_cell(grid.get((row, column))) for column in columns)) for row in rows)
    return Section(title, lead, ("", *columns), cells)


def _cell(numbers: tuple[str, str] | None) -> str:
    if numbers is None:
        return "–"
    ours, published = numbers
    return f"{ours} (paper: {published})" if published else ours


def grids(cells: Sequence[tuple[str, str, str, str, str]]) -> dict[str, dict[tuple[str, str], tuple[str, str]]]:
    """Return the grid of each table, from (table, row, column, ours, published)."""
    found: dict[str, dict[tuple[str, str], tuple[str, str]]] = {}
    for table, row, column, ours, published in cells:
        found.setdefault(table, {})[row, column] = (ours, published)
    return found
