"""The templates of pages and their style sheet."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


@cache
def page_template(name: str) -> Template:
    """Return a template of this folder."""
    environment = Environment(
        loader=PackageLoader("semco.report", "."),
        autoescape=True,  # class names come from the user
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def page_style() -> str:
    return Path(__file__).with_name("style.css").read_text(encoding="utf-8")
