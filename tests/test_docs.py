"""The docs: links lead somewhere, lines are short, and the names in commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from semco.config.recipes import find_recipe
from semco.methods import Method

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def test_there_are_pages() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "docs/glossary.md", "docs/lab/README.md", "docs/methods/semco.md"} <= names


@every_page
def test_lines_are_short(page: Path) -> None:
    """At most 100 characters; the row of a table cannot be broken."""
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 100 and not line.startswith("|") and "](" not in line] == []


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


@every_page
def test_recipes_and_methods_in_commands_exist(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("| `"))  # tables of old and new names
    for names in re.findall(r"--(?:recipe|methods) ([a-z0-9_,+-]+)", text):
        for name in re.split(r"[,+]", names.strip(",")):
            if name not in ("a", "b", "c"):  # placeholders
                find_recipe(name)


def test_the_index_of_methods_is_complete() -> None:
    index = (ROOT / "docs/methods/README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| \[`(\w+)`\]", index, re.MULTILINE))
    assert listed == set(Method.registry), "write a line for each method into docs/methods/README.md"


def test_the_landing_page_shows_the_result_of_the_readme() -> None:
    """README's first table, with the same numbers."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("| 5 labels per class") :].split("\n\n")[0]
    assert "difference, paired" in table
    assert table in (ROOT / "docs/index.md").read_text(encoding="utf-8")
