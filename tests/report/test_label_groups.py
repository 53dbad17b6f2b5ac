from __future__ import annotations

from pathlib import Path

import pytest

from semco.groups.explain import Pair
from semco.groups.grouping import group_classes
from semco.labels.sources import store_source
from semco.report.label_groups import pair_option, write_label_page

NAMES = ("trout", "salmon", "oak tree", "maple tree", "elehpant", "qwrtzp", "<b>bold</b>", "cat", "dog")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "labels.html"
    found = store_source(None, unknown_names="own").vectors(NAMES)
    write_label_page(found, group_classes(found), path)
    assert [one.name for one in path.parent.iterdir()] == ["labels.html"]
    return path.read_text(encoding="utf-8")


def test_the_page_shows_groups_and_what_changes_them(page: str) -> None:
    assert "<h3>trout, salmon" in page
    assert "<code>--apart trout,salmon</code>" in page
    assert "<code>--group cat,dog</code>" in page
    assert "<code>--apart &#39;oak tree,maple tree&#39;</code>" in page


def test_doubtful_names_are_listed_with_the_way_to_correct_them(page: str) -> None:
    names_to_check = page[page.index("Names to check") : page.index("Groups of several classes")]
    assert "--alias elehpant=TERM" in names_to_check
    assert "--alias qwrtzp=TERM" in names_to_check
    assert "salmon" not in names_to_check


def test_the_page_is_safe_and_loads_nothing(page: str) -> None:
    assert "<b>bold</b>" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page


def test_a_name_with_a_comma_has_no_option() -> None:
    assert pair_option(Pair(("cat", "dog"), 0.5)) == "cat,dog"
    assert pair_option(Pair(("tench, Tinca", "dog"), 0.5)) == ""


def test_a_page_without_groups(tmp_path: Path) -> None:
    found = store_source(None).vectors(("cat",))
    write_label_page(found, group_classes(found), tmp_path / "p.html")
    assert "every class is its own group" in (tmp_path / "p.html").read_text(encoding="utf-8")
