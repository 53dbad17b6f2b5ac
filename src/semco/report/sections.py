"""Pages made of sections: a text, a table, figures and images each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

from semco.files import readable_name, write_text
from semco.report.charts import Chart


@cache
def page_template(name: str, package: str = "semco.report") -> Template:
    """Return a template in the folder of a package; it may extend and import those of this folder."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(place, ".") for place in (package, "semco.report")]),
        autoescape=True,  # file and class names come from the user
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    return environment.get_template(name)


@dataclass(frozen=True)
class ImageTile:
    """An image as a data URL with its captions."""

    source: str
    title: str
    note: str = ""
    is_small: bool = True  # shown with its exact pixels


@dataclass(frozen=True)
class Section:
    """One part of a page."""

    title: str
    lead: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    charts: tuple[Chart, ...] = ()
    images: tuple[ImageTile, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.rows or self.charts or self.images)


def write_sections(out: Path, title: str, verdict: str, sections: Sequence[Section]) -> Path:
    """Write a page with these sections, which loads nothing from elsewhere."""
    shown = [section for section in sections if not section.is_empty]
    page = page_template("sections.html").render(title=title, verdict=verdict, sections=shown)
    write_text(out, readable_name(page))
    return out


def save_figures(sections: Sequence[Section], folder: Path) -> list[Path]:
    """Write every figure of the sections as PNG, PDF and SVG, named by its title."""
    files = []
    for section in sections:
        for chart in section.charts:
            if chart.figure is not None:
                files += chart.figure.save(folder / file_stem(chart.title))
    return files


def file_stem(title: str) -> str:
    """Return a title as the name of a file: ``SemCo+: fraction retained`` -> ``semco-fraction-retained``."""
    words = "".join(c if c.isalnum() else " " for c in title.replace("+", " plus ").casefold()).split()
    return "-".join(words)


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
