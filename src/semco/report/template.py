"""The templates of pages; ``base.html`` has what all of them share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template


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
