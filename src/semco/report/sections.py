"""Pages made of sections: a text, a table, figures and images each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from semco.files import readable_name, write_text
from semco.report.charts import Chart
from semco.report.template import page_template


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
