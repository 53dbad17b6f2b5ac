"""The HTML page of a report: complete, self-contained, safe, and made from whatever a run has written."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from semco.cli.report import report
from semco.errors import UserError
from semco.evaluation.metrics import confusion_of
from semco.report import write_report
from semco.report.classes import GroupMember, label_groups
from semco.report.runs import Run
from semco.run.accuracy import Accuracy
from semco.run.seal import read_with_digest, write_with_digest
from tests.export.chromium import PROGRAM, Browser

VOID = {"wbr", "meta", "img", "br", "link", "hr", "input"}
NASTY = ("<script>alert(1)</script>", "$5 & $x^{", "_hidden", '"quoted"', "汉字 é", "a" * 60, "shirt", "b", "c", "d")


class Page(HTMLParser):
    """Collects tags and ids, and fails on tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _page(runs: list[Path], out: Path) -> tuple[Page, str]:
    assert write_report(runs, out, "A title") == out
    text = out.read_text(encoding="utf-8")
    return Page(text), text


@pytest.mark.usefixtures("plain_figures")
def test_a_finished_run_shows_every_section(make_run, tmp_path: Path) -> None:
    page, text = _page([make_run("semco"), make_run("supervised")], tmp_path / "report.html")
    for heading in (
        "Comparison",
        "Training",
        "Class names and label groups",
        "Pseudo-labels",
        "Mistakes",
        "Example predictions",
        "Results per class",
        "Reproduce this run",
    ):
        assert f"<h2>{heading}</h2>" in text
    assert page.tags.count("svg") == 3 + 4 + 1  # learning, pseudo-labels of two heads, confusion
    assert page.tags.count("img") == 24 + 8
    assert "→ boot (head noun)" in text
    assert "40 labels (4 per class)" in text


@pytest.mark.usefixtures("plain_figures")
@pytest.mark.parametrize("is_known", [True, False])
def test_statistics_of_pseudo_labels_are_in_the_report(make_run, tmp_path: Path, is_known: bool) -> None:
    """Class 0 is retained once in two images, correctly; all others never; the heads never disagree.

    If the true classes of the pool are not known, as those of people's own photos, nothing can be said about classes.
    """
    run, heads = make_run("semco"), ("one_hot", "semantic", "ensemble")
    class_ids = [*range(10), -1]
    rows = len(heads) * len(class_ids)
    retained = [1.0 * (class_id == 0) for class_id in class_ids] * len(heads)
    table = {
        "step": [20] * rows,
        "head": [head for head in heads for _ in class_ids],
        "class_id": class_ids * len(heads),
    }
    table |= dict.fromkeys(("retained", "correct", "correct_group"), retained)
    table |= {"images": [2.0] * rows, "both": [0.0] * rows, "disagreement": [0.0] * rows}
    if not is_known:
        table |= {
            name: [value * (class_id < 0) for value, class_id in zip(table[name], table["class_id"], strict=True)]
            for name in ("retained", "correct", "correct_group", "images")
        }
    pq.write_table(pa.table(table), run / "classes.parquet")
    _, text = _page([run], tmp_path / "report.html")
    for heading in ("Pseudo-labels in numbers", "Look-alike and distinct classes", "Co-training"):
        assert (f"<h2>{heading}</h2>" in text) is is_known
    assert "<h2>Most confused images</h2>" not in text  # there is no table of images


@pytest.mark.usefixtures("plain_figures")
@pytest.mark.parametrize(
    ("data", "held", "phrase"),
    [
        ({"labels_per_class": 4}, 0, "40 labels (4 per class)"),
        ({"labels_per_class": 5}, 10, "40 labels."),
        ({"labels_per_class": None, "num_labels": 40}, 0, "40 labels."),
        ({"labels_per_class": None}, 10, "40 labels (all except 10 held out for validation)."),
        ({"labels_per_class": None}, 0, "all 40 labels."),
    ],
)
def test_validation_images_do_not_count_as_labels(
    make_run, tmp_path: Path, data: dict[str, int | None], held: int, phrase: str
) -> None:
    run = make_run("semco", config={"data": data})
    write_with_digest(run / "split.json", {"validation": list(range(held))})
    assert f"trained with {phrase}" in _page([run], tmp_path / "report.html")[1]


@pytest.mark.usefixtures("plain_figures")
def test_unknown_values_are_left_out(make_run, tmp_path: Path) -> None:
    """The true classes of the pool are unknown, and the test images have no mistakes."""
    run = make_run("semco")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    kept = [{key: value for key, value in line.items() if "accuracy" not in key} for line in lines]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    evaluation = read_with_digest(run / "evaluation.json")
    evaluation["confusion"] = confusion_of(np.arange(10), np.arange(10), 10).to_json()
    write_with_digest(run / "evaluation.json", evaluation)
    _, text = _page([run], tmp_path / "report.html")
    assert "confident enough to learn from.</p>" in text
    assert "None: every test image was classified correctly." in text


@pytest.mark.usefixtures("plain_figures")
def test_methods_are_compared_by_error_over_steps_and_over_seconds(make_run, tmp_path: Path) -> None:
    _, several = _page([make_run("semco"), make_run("fixmatch")], tmp_path / "several.html")
    assert "Validation error (training step)" in several
    assert "Validation error over time (training time in seconds)" in several
    _, one = _page([make_run("supervised")], tmp_path / "one.html")
    assert "Validation accuracy (training step)" in one
    assert "time in seconds" not in one


def test_the_page_is_self_contained(make_run, tmp_path: Path) -> None:
    page, text = _page([make_run("semco")], tmp_path / "report.html")
    assert "script" not in page.tags
    assert all(link.startswith(("data:image/png;base64,", "#")) for link in page.links)
    outside = re.sub(r'xmlns(:xlink)?="[^"]*"', "", text)
    assert "http" not in outside.replace("http-equiv", "")
    assert "default-src 'none'" in text


def test_ids_are_unique_and_references_are_valid(make_run, tmp_path: Path) -> None:
    page, text = _page([make_run("semco"), make_run("fixmatch")], tmp_path / "report.html")
    assert len(set(page.ids)) == len(page.ids)
    used = set(re.findall(r"url\(#([^)]+)\)", text)) | {link[1:] for link in page.links if link[:1] == "#"}
    assert used <= set(page.ids)


def test_class_names_are_escaped(make_run, tmp_path: Path) -> None:
    page, _ = _page([make_run("semco", names=NASTY)], tmp_path / "report.html")
    assert "script" not in page.tags
    for name in NASTY:
        assert any(name in text for text in page.text), name


@pytest.mark.usefixtures("plain_figures")
def test_long_class_names_break_after_an_underscore_and_stay_escaped(make_run, tmp_path: Path) -> None:
    names = ("Red_headed_Woodpecker", "<b>_&", *NASTY[2:])
    _, text = _page([make_run("semco", names=names)], tmp_path / "report.html")
    for shown in ("Red_<wbr>headed_<wbr>Woodpecker", "&lt;b&gt;_<wbr>&amp;"):
        assert f'">{shown}' in text  # in a group
        assert f"✗ {shown}</b>" in text or f"✓ {shown}</b>" in text  # below a photo
    assert "true: <strong>Red_<wbr>headed_<wbr>Woodpecker</strong>" in text


@pytest.mark.usefixtures("plain_figures")
def test_the_main_run_is_not_the_baseline(make_run, tmp_path: Path) -> None:
    _, text = _page([make_run("supervised"), make_run("semco")], tmp_path / "report.html")
    assert 'class="verdict">SemCo classifies' in text
    assert "For comparison: Supervised baseline" in text


@pytest.mark.usefixtures("plain_figures")
def test_an_interrupted_run_is_marked_and_shows_its_curves(make_run, tmp_path: Path) -> None:
    page, text = _page([make_run("semco", killed_at=340)], tmp_path / "report.html")
    assert "its log ends at step 340 of 1,000" in text
    assert "semco resume" in text
    assert "of the validation images correctly so far" in text
    assert page.tags.count("svg") == 2 + 4
    assert "<h2>Mistakes" not in text


@pytest.mark.usefixtures("plain_figures")
@pytest.mark.parametrize("missing", ["labels.json", "metrics.jsonl", "result.json", "evaluation.json"])
def test_any_file_may_be_missing(make_run, tmp_path: Path, missing: str) -> None:
    folder = make_run("semco")
    (folder / missing).unlink()
    _page([folder], tmp_path / "report.html")


def test_a_run_that_has_only_a_configuration(make_run, tmp_path: Path) -> None:
    folder = make_run("semco")
    for file in folder.iterdir():
        if file.name != "config.yaml":
            file.unlink()
    page, text = _page([folder], tmp_path / "report.html")
    assert "has not been evaluated on any image yet" in text
    assert "svg" not in page.tags


@pytest.mark.usefixtures("plain_figures")
@pytest.mark.parametrize(
    ("is_kept", "end"),
    [
        (False, "A linear probe on the same images: 75.0 % (tied, +5.0 points, 95 % interval -10 to +20)."),
        (True, "The model is the linear probe, which was better on images whose labels were held out."),
    ],
)
def test_without_test_images_the_page_begins_with_held_out_labels(
    make_run, tmp_path: Path, is_kept: bool, end: str
) -> None:
    folder = make_run("semco")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("validation_accuracy", None)
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    result = read_with_digest(folder / "result.json")
    own, other = (Accuracy.of(right, 20, "cross_validation").model_dump() for right in (16, 15))
    probe = {"accuracy": other, "difference": {"value": 0.05, "low": -0.1, "high": 0.2}, "is_kept": is_kept}
    result |= {"test_accuracy": None, "validation_accuracy": None, "accuracy": own, "probe": probe}
    write_with_digest(folder / "result.json", result)
    _, text = _page([folder], tmp_path / "report.html")
    assert "SemCo is right for 80.0 % of 20 labelled images, each predicted without its label (95 % interval" in text
    assert f"The data set has no test images. {end}" in text
    assert "Cross-validated accuracy" in text


@pytest.mark.usefixtures("plain_figures")
def test_without_test_images_the_page_shows_labelled_images_mistakes_first(make_run, tmp_path: Path) -> None:
    folder = make_run("semco")
    evaluation = read_with_digest(folder / "evaluation.json")
    unlabelled = [{**evaluation["samples"][0], "kind": kind, "truth": -1} for kind in ("sure", "unsure")]
    evaluation |= {"kind": "cross_validation", "samples": evaluation["samples"] + unlabelled}
    write_with_digest(folder / "evaluation.json", evaluation)
    page, text = _page([folder], tmp_path / "report.html")
    assert page.tags.count("img") == 24 + 8 + 2
    assert text.index("Mistakes, the most confident first") < text.index("Other labelled images, chosen at random")
    assert text.count("Each image is predicted by a model that was fitted without its label.") == 3
    assert text.index("Most confident, each of another class") < text.index("Least confident")
    assert len(re.findall(r'<figure class="sample">', text)) == 2  # neither right nor wrong
    assert "test images" not in text[text.index("Example predictions") :]
    assert "Confusion matrix of the labelled images" in text


@pytest.mark.usefixtures("plain_figures")
@pytest.mark.parametrize(("method", "heads"), [("fixmatch", ["one_hot"]), ("semco", ["one_hot", "semantic"])])
def test_heads_are_named_only_if_there_are_several(method: str, heads: list[str], make_run, tmp_path: Path) -> None:
    folder = make_run(method)
    values = {"reliability": [[4, 2.0, 1]], "calibration_error": 0.25}
    write_with_digest(
        folder / "evaluation.json",
        read_with_digest(folder / "evaluation.json") | {"heads": dict.fromkeys(heads, values)},
    )
    _, text = _page([folder], tmp_path / "report.html")
    assert "<h2>Calibration</h2>" in text
    assert "raction of the pool retained" in text
    assert ("one-hot head" in text.lower()) == (len(heads) > 1)
    assert ("for each head that can predict" in text) == (len(heads) > 1)


@pytest.mark.usefixtures("plain_figures")
def test_a_run_without_label_vectors_has_no_group_section(make_run, tmp_path: Path) -> None:
    folder = make_run("supervised")
    labels = read_with_digest(folder / "labels.json")
    labels |= {"terms": [], "routes": [], "source": "none", "eps": 0.0, "groups": list(range(10))}
    write_with_digest(folder / "labels.json", labels)
    _, text = _page([folder], tmp_path / "report.html")
    assert "Class names and label groups" not in text
    assert "Group accuracy" not in text


@pytest.mark.usefixtures("plain_figures")
def test_several_seeds_are_averaged(make_run, tmp_path: Path) -> None:
    folders = [make_run("semco", seed) for seed in range(3)]
    for folder, accuracy in zip(folders, (0.7, 0.8, 0.81), strict=True):
        result = read_with_digest(folder / "result.json")
        write_with_digest(folder / "result.json", result | {"test_accuracy": accuracy})
    _, text = _page(folders, tmp_path / "report.html")
    assert "mean of 3 seeds" in text
    assert "<dt>Test accuracy</dt><dd>77.0 %" in text
    assert "show one run: SemCo, seed 0" in text


@pytest.mark.usefixtures("plain_figures")
def test_methods_are_compared_with_the_first(make_run, tmp_path: Path) -> None:
    _, text = _page([make_run("fixmatch"), make_run("semco")], tmp_path / "report.html")
    assert "<th>Paired difference to FixMatch</th>" in text
    assert text.index("<td>FixMatch</td>") < text.index("<td>SemCo</td>")
    assert "difference" not in _page([make_run("semco")], tmp_path / "one.html")[1]


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
@pytest.mark.usefixtures("plain_figures")
def test_tables_fit_a_phone(make_run, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_report([make_run("fixmatch"), make_run("semco")], page)
    with Browser(tmp_path / "profile") as browser:
        browser.resize(400, 800)
        browser.open(page.as_uri())
        tables = browser.run("[...document.querySelectorAll('table')].map(t => t.getBoundingClientRect().right)")
        assert len(tables) == 3
        assert max(tables) <= 400
        assert browser.run("document.documentElement.scrollWidth") <= 400


def test_the_same_runs_give_the_same_page(make_run, tmp_path: Path) -> None:
    runs = [make_run("semco"), make_run("fixmatch")]
    assert _page(runs, tmp_path / "a.html")[1] == _page(runs, tmp_path / "b.html")[1]


def test_a_large_confusion_matrix_has_no_class_names(make_run, tmp_path: Path) -> None:
    folder, count = make_run("semco"), 60
    evaluation = read_with_digest(folder / "evaluation.json")
    evaluation |= {
        "groups": list(range(count)),
        "confusion": confusion_of(np.arange(count), np.arange(count), count).to_json(),
    }
    write_with_digest(folder / "evaluation.json", evaluation)
    names = [f"class {k}" for k in range(count)]
    labels = read_with_digest(folder / "labels.json") | {"names": names, "groups": list(range(count))}
    write_with_digest(folder / "labels.json", labels)
    page, text = _page([folder], tmp_path / "report.html")
    assert page.tags.count("svg") == 7
    svg = text[text.index("Confusion matrix of the test images") :]
    assert "class 7" not in svg[: svg.index("</svg>")]


def test_a_report_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="at least one run"):
        write_report([], tmp_path / "report.html")


def test_the_term_of_a_class_is_shown_if_it_differs() -> None:
    labels = {
        "names": ["T-shirt", "trousers", "ankle boot", "left", "right"],
        "terms": ["t_shirt", "trouser", "boot", "side", "side"],
        "routes": ["exact", "lemma", "head noun", "exact, shared", "exact, shared"],
        "groups": [0, 1, 1, 2, 2],
        "source": "a store",
        "eps": 0.2,
    }
    found = label_groups(Run(Path("run"), {}, labels))
    assert found is not None
    (alone,) = found.alone
    assert alone == GroupMember("T-shirt", "", is_uncertain=False)
    first, second = found.shared
    assert first == (
        GroupMember("trousers", "→ trouser (lemma)", is_uncertain=False),
        GroupMember("ankle boot", "→ boot (head noun)", is_uncertain=True),
    )
    assert second[0] == GroupMember("left", "→ side (exact, shared)", is_uncertain=True)
    assert "closer than 0.2" in found.introduction
    assert "An arrow shows" in found.introduction


def test_a_class_without_a_term_has_no_arrow() -> None:
    labels = {
        "names": ["Blauhäher groß", "SKU-1042", "Hund (dog)"],
        "terms": ["", "", ""],
        "routes": ["sentence encoder", "own vector", "sentence encoder"],
        "groups": [0, 1, 2],
    }
    found = label_groups(Run(Path("run"), {}, labels))
    assert found is not None
    assert [member.note for member in found.alone] == [
        "placed by its meaning (sentence encoder)",
        "a vector of its own",
        "placed by its meaning (sentence encoder)",
    ]
    assert "arrow" not in found.introduction


@pytest.mark.usefixtures("plain_figures")
def test_experiments_with_equal_names_are_numbered(make_run, tmp_path: Path) -> None:
    """Long values with the same end are shortened to the same text; the numbers follow the order of the runs."""
    sources = [f"/{kind}/a/long/way/to/the/photos" for kind in ("cats", "dogs")]
    folders = [make_run("fixmatch"), *(make_run("semco", config={"data": {"source": one}}) for one in sources)]
    _, text = _page(folders, tmp_path / "report.html")
    assert "show one run: SemCo (source=…/long/way/to/the/photos) #2, seed 0" in text


def test_the_y_axis_fits_the_curves_of_several_methods(make_run, tmp_path: Path) -> None:
    alone = _page([make_run("semco")], tmp_path / "one.html")[1]
    beside = _page([make_run("fixmatch"), make_run("semco")], tmp_path / "two.html")[1]
    charts = [page[page.index("<h2>Training") : page.index("Loss terms, before")] for page in (alone, beside)]
    assert [">100 %<" in chart for chart in charts] == [True, False]


@pytest.mark.usefixtures("plain_figures")
@pytest.mark.parametrize(("method", "title"), [("semco", "SemCo"), ("semco_plus", "SemCo+")])
def test_the_heading_has_the_title_of_the_method(make_run, tmp_path: Path, method: str, title: str) -> None:
    text = write_report([make_run(method)], tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<h1>{title} on fashion-mini</h1>" in text
    assert f'class="verdict">{title} classifies' in text


def test_a_damaged_result_is_named(make_run, tmp_path: Path) -> None:
    run = make_run("semco")
    write_with_digest(run / "result.json", {"method": "semco"})
    with pytest.raises(UserError, match=r"result\.json is not a result of a run"):
        write_report([run], tmp_path / "report.html")


def _app() -> typer.Typer:
    app = typer.Typer()
    app.command()(report)
    return app


def test_the_page_is_written_into_the_first_run(make_run) -> None:
    folder = make_run("semco")
    result = CliRunner().invoke(_app(), [str(folder)])
    assert result.exit_code == 0
    assert "<h1>SemCo on fashion-mini</h1>" in (folder / "report.html").read_text(encoding="utf-8")
    assert "report.html" in result.stdout


def test_several_runs_and_a_chosen_file(make_run, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "page.html"
    runs = [str(make_run("semco")), str(make_run("fixmatch", killed_at=200))]
    result = CliRunner().invoke(_app(), [*runs, "--out", str(out), "--title", "Two <runs>"])
    assert result.exit_code == 0
    assert "<h1>Two &lt;runs&gt;</h1>" in out.read_text(encoding="utf-8")
    assert "0 of 1" in result.stdout


def test_a_file_that_cannot_be_written_is_named(make_run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write .*page\.html"):
        write_report([make_run("semco", killed_at=20)], tmp_path / "file" / "page.html")
    with pytest.raises(UserError, match="cannot write"):
        write_report([make_run("semco", killed_at=20)], tmp_path)
