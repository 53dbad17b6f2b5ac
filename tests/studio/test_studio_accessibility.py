"""What a screen reader and a keyboard get from the pages of the Studio, and whether all text can be read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.export.chromium import PROGRAM, Browser
from tests.forking import forked_python
from tests.studio.studio_server import Studio, copy_fruit
from tests.studio.test_studio_browser import go, show
from tests.studio.test_studio_server import CLASSES, SETTINGS

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")

READY = {
    "classes": "document.querySelectorAll('.class-row').length === 3",
    "label": "document.querySelectorAll('.tile.loaded').length > 5",
    "train": "document.getElementById('start')",
    "review": "document.querySelector('.half')",
    "use": "document.getElementById('export-onnx')",
}
# Landmarks that every page has, and those of one page: role and name.
LANDMARKS = {("banner", ""), ("navigation", "Steps"), ("main", "")}
OWN_LANDMARKS = {
    "classes": {("region", "Classes"), ("region", "Grouped by name"), ("region", "Map of meanings")},
    "label": {("region", "Photos"), ("complementary", "Classes")},
    "train": {("region", "Training"), ("region", "Labels"), ("region", "Curves")},
    "review": {("region", "Answers of the model"), ("complementary", "Classes"), ("region", "Right per class")},
    "use": {("region", "Classify new photos"), ("region", "Take the model with you"), ("region", "Sort all photos")},
}
# Returns the texts of the page whose contrast is too low by WCAG 2.1 AA, as [text, contrast]. The background is that
# of the next element outwards that has one; texts on photos have a background of their own.
CONTRAST = """(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, i) => sum + each * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const [r, g, b, alpha = 1] = numbers(getComputedStyle(each).backgroundColor);
      if (alpha > 0.9) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  const check = (element, style, text) => {
    const under = behind(element), over = numbers(style.color), alpha = (over[3] ?? 1) * style.opacity;
    const seen = over.slice(0, 3).map((each, i) => alpha * each + (1 - alpha) * under[i]);
    const [dark, bright] = [light(seen), light(under)].sort((a, b) => a - b);
    const contrast = (bright + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (contrast < (isLarge ? 3 : 4.5)) found.push([text, contrast.toFixed(2)]);
  };
  for (const element of document.querySelectorAll("body *")) {
    if (!element.checkVisibility() || element.closest(":disabled")) continue;
    const texts = [...element.childNodes].filter((each) => each.nodeType === Node.TEXT_NODE);
    const own = texts.map((each) => each.data.trim());
    if (own.join("") && !element.closest("svg, option")) check(element, getComputedStyle(element), own.join(" "));
    if (element.placeholder) check(element, getComputedStyle(element, "::placeholder"), element.placeholder);
  }
  return found;
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        started.resize(1200, 800)
        yield started


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A project with a finished round, one photo judged blind after it, and one that cannot be read."""
    folder = tmp_path_factory.mktemp("studio")
    photos = copy_fruit(folder / "photos", CLASSES, 6)
    settings = ("training.steps=3", *(each for each in SETTINGS if "steps" not in each))
    with pytest.MonkeyPatch.context() as patch, Studio(photos, folder / "project", CLASSES, settings) as started:
        patch.setattr(sys, "executable", forked_python())
        for number, label in ((0, 1), (1, 1), (6, 2), (7, 2), (12, 3), (13, 3)):
            started.project.label([number], label, "a", None)
        started.ask("/api/training", {"action": "start", "start": "scratch"})
        started.wait_for("/api/training", "finished")
        started.project.label([2], 1, "a", None, is_blind=True)
        yield started


@pytest.fixture(params=list(READY))
def page(request: pytest.FixtureRequest, browser: Browser, studio: Studio) -> str:
    show(browser, studio)
    go(browser, request.param, READY[request.param])
    return str(request.param)


def test_landmarks_names_and_headings(browser: Browser, page: str) -> None:
    nodes = browser.accessibility()
    present = {(node["role"], node["name"]) for node in nodes}
    assert present >= LANDMARKS | OWN_LANDMARKS[page]
    widgets = [node for node in nodes if node["focusable"] and node["role"] not in ("RootWebArea", "main")]
    assert [node for node in widgets if not node["name"]] == []
    assert {node["role"] for node in widgets} <= {
        "link", "button", "textbox", "searchbox", "combobox", "radio", "checkbox", "slider", "listbox", "option",
        "DisclosureTriangle", "Iframe",
    }  # fmt: skip
    assert [node for node in nodes if node["role"] in ("image", "figure", "radiogroup") and not node["name"]] == []
    levels = [node["level"] for node in nodes if node["role"] == "heading"]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_has_enough_contrast(browser: Browser, page: str, dark: bool) -> None:
    browser.resize(1200, 800, dark=dark)
    assert browser.run(CONTRAST) == [], page
    browser.resize(1200, 800)


def test_the_check_of_contrast_finds_grey_on_white(browser: Browser) -> None:
    """Grey #777 on white has a contrast of 4.48, #767676 of 4.54 (the figures of WCAG's own examples)."""
    browser.leave()
    browser.run('document.body.innerHTML = \'<p style="color:#777">low</p><p style="color:#767676">enough</p>\'')
    assert browser.run(CONTRAST) == [["low", "4.48"]]


def test_tab_goes_through_the_page_in_its_order(browser: Browser, studio: Studio) -> None:
    show(browser, studio)
    go(browser, "label", READY["label"])
    browser.run("document.querySelector('.skip').focus()")
    names: list[Any] = [browser.run(FOCUSED)]
    while names[-1] != "Train →":
        browser.key("Tab")
        names.append(browser.run(FOCUSED))
    assert names == [
        "Skip to the content", "SemCo Studio", "Classes", "Label", "Train", "Review", "Use", "Undo", "History",
        "useful", "no", "Filter", "Size of the photos", "Photos", *CLASSES, "Train →",
    ]  # fmt: skip
    asked = "performance.getEntriesByType('resource').filter((each) => each.name.includes('/api/state')).length"
    before = browser.run(asked)
    browser.wait(f"{asked} > {before} + 2")
    assert browser.run(FOCUSED) == "Train →"  # also after the page has asked for news


# The name of the element that has the focus, as short as it can be.
FOCUSED = """(() => { const each = document.activeElement;
  if (each === document.body) return "";
  if (each.type === "radio") return each.value;
  if (each.dataset.class) return each.querySelector(".name").textContent;
  return each.ariaLabel ?? each.lastChild.textContent.trim(); })()"""


def test_the_focus_returns_to_the_photos(browser: Browser, studio: Studio) -> None:
    show(browser, studio)
    go(browser, "label", READY["label"])
    browser.wait("document.activeElement.role === 'listbox'")
    browser.key(" ")
    browser.wait("document.getElementById('preview').open")
    assert browser.run("document.getElementById('preview').contains(document.activeElement)")
    browser.key("Escape")
    assert browser.wait("document.activeElement.role === 'listbox'")
    number = browser.run("document.querySelector('.tile.cursor').id")
    assert browser.run("document.activeElement.getAttribute('aria-activedescendant')") == number


def test_the_window_of_the_history_is_named(browser: Browser, studio: Studio) -> None:
    show(browser, studio)
    browser.click("#history-button")
    browser.wait("document.querySelectorAll('.history li').length > 3")
    nodes = browser.accessibility()
    assert ("dialog", "History") in {(node["role"], node["name"]) for node in nodes}
    assert browser.run(CONTRAST) == []
    browser.key("Escape")
