"""One self-contained HTML page for one run or several: no network, no scripts, light and dark."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from semco.errors import UserError
from semco.evaluation.samples import Sample
from semco.files import write_text
from semco.report.charts import learning_charts, pseudo_label_charts
from semco.report.classes import class_rows, confusions, meaning
from semco.report.names import experiments, title_of
from semco.report.runs import Run, read_run
from semco.report.tables import (
    Row,
    accuracy_text,
    difference_text,
    difference_title,
    duration_text,
    judged_on,
    labels_text,
    mean_or_none,
    runs_text,
    summary_rows,
)

# Images up to this width are shown with sharp pixels.
SMALL_IMAGE = 64


def write_report(
    runs: Sequence[Path], out: Path, title: str | None = None, samples: Sequence[Sample] | None = None
) -> Path:
    """Write the page to ``out`` and give its path back.

    One run is looked at in depth, the others stand beside it: the first of those that made the most kinds of
    pseudo-labels, so that a baseline is never the subject. ``samples`` replace those that the subject's folder
    holds. Runs that are not finished show what they have.
    """
    if not runs:
        raise UserError("a report needs at least one run folder.")
    read = [read_run(path) for path in runs]
    write_text(out, _template().render(_context(read, title, samples)))
    return out


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("semco.report", "."),
        autoescape=True,  # class names are the user's and may hold anything
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


def _context(runs: Sequence[Run], title: str | None, samples: Sequence[Sample] | None) -> dict[str, Any]:
    subject, rows = max(runs, key=lambda run: len(run.pseudo_label_heads())), summary_rows(runs)
    groups = experiments(runs)
    own_name, repeats = next((name, group) for name, group in groups.items() if subject in group)
    groups = {own_name: repeats, **groups}  # the subject's come first, in every legend
    shown = subject.evaluation.get("samples") or [] if samples is None else [s.to_json() for s in samples]
    return {
        "title": title or f"{title_of(subject.method)} on {_data_name(subject)}",
        "style": Path(__file__).with_name("style.css").read_text(encoding="utf-8"),
        "eyebrow": f"SemCo report · {_data_name(subject)}",
        "notice": _notice(subject),
        "verdict": _verdict(subject, own_name, rows),
        "tiles": _tiles(repeats),
        "rows": [_table_row(row) for row in rows],
        "against": difference_title(rows),
        "judged_on": judged_on(runs),
        "in_depth": f"{own_name}, seed {subject.seed}" if len(runs) > 1 else "",
        "learning": learning_charts(groups, subject),
        "groups": meaning(subject),
        "pseudo": pseudo_label_charts(subject),
        "truth_known": any(subject.series(key)[0] for key in subject.keys("pseudo/") if key.endswith("/accuracy")),
        "confusion": confusions(subject),
        "random": _answers(shown, "random", subject.class_names),
        "mistakes": _answers(shown, "mistake", subject.class_names),
        "classes": class_rows(subject),
        "command": _command(subject),
        "configs": [_config(name, group[0]) for name, group in groups.items()],
        "version": _version(),
    }


def _data_name(run: Run) -> str:
    return Path(_source(run)).name


def _source(run: Run) -> str:
    return str(run.section("data").get("source", "fashion-mini"))


def _notice(run: Run) -> str:
    if run.finished:
        return ""
    total = run.section("training").get("steps")
    of = f" of {total:,}" if isinstance(total, int) else ""
    return f"This run is not finished: it has written {run.steps:,}{of} steps. Go on with: semco resume {run.path}"


def _verdict(run: Run, name: str, rows: Sequence[Row]) -> str:
    """The answer in a sentence or two."""
    if run.accuracy() is None:
        return _preliminary(run)
    own = next(row for row in rows if row.name == name)
    repeats = f", over {own.finished} seeds" if own.finished > 1 else ""
    sentence = (
        f"{own.name} names {own.accuracy_text} of {_test_images(run)} right{repeats}, "
        f"after seeing {_labels_phrase(run)}."
    )
    others = [f"{row.name} {row.accuracy_text}" for row in rows if row is not own and row.accuracy is not None]
    return f"{sentence} Beside it: {', '.join(others)}." if others else sentence


def _preliminary(run: Run) -> str:
    _, values = run.series("validation_accuracy")
    if not values:
        return f"{title_of(run.method)} has not been judged on any image yet."
    if run.finished:
        images = f"{len(run.split.get('validation', ())):,} validation images"
        return f"{title_of(run.method)} names {accuracy_text(values[-1])} of {images} right; there are none to test on."
    return f"{title_of(run.method)} names {accuracy_text(values[-1])} of the validation images right so far."


def _test_images(run: Run) -> str:
    count = run.result.get("test_images")
    return f"{int(count):,} test images" if count else "the test images"


def _labels_phrase(run: Run) -> str:
    """How many were learned from; those that were held out to validate are not."""
    labels, data = run.label_count(), run.section("data")
    if labels is None:
        return "every label there is"
    per_class = data.get("labels_per_class") or 0
    if per_class and labels == per_class * len(run.class_names):
        return f"{labels:,} labels ({per_class} of each class)"
    asked_for = per_class or data.get("labels")
    return f"{labels:,} labels" + ("" if asked_for else f", all but {len(run.split['validation']):,} held out")


@dataclass(frozen=True)
class Tile:
    name: str
    value: str
    note: str = ""


def _tiles(repeats: Sequence[Run]) -> list[Tile]:
    """The numbers of the experiment looked at: means over the seeds that are finished, or of a run as far as it is."""
    runs = [run for run in repeats if run.finished] or repeats[:1]
    run, classes = runs[0], len(runs[0].class_names)
    error = mean_or_none(run.result.get("calibration_error") for run in runs)
    tiles = [
        Tile("Test accuracy", accuracy_text(mean_or_none(run.accuracy() for run in runs)), _chance(classes)),
        Tile("Right group", accuracy_text(mean_or_none(map(_group_accuracy, runs))), "the class, or one near it"),
        Tile("Top 5", accuracy_text(mean_or_none(run.result.get("top5") for run in runs)) if classes > 5 else "–"),
        Tile("Labels used", labels_text(run.label_count()), f"{classes} classes" if classes else ""),
        Tile("Training", duration_text(mean_or_none(run.seconds for run in runs)), f"{run.steps:,} steps"),
        Tile("Calibration error", "–" if error is None else f"{100 * error:.1f} pts", "confidence − accuracy"),
    ]
    return [tile for tile in tiles if tile.value != "–"]


def _group_accuracy(run: Run) -> float | None:
    """Worth saying only where classes share groups."""
    groups = run.labels.get("groups") or []
    return run.result.get("group_accuracy") if len(set(groups)) < len(groups) else None


def _chance(classes: int) -> str:
    return f"guessing: {100 / classes:.1f} %" if classes else ""


def _table_row(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "labels": labels_text(row.labels),
        "runs": runs_text(row),
        "accuracy": row.accuracy_text,
        "share": None if row.accuracy is None else round(100 * row.accuracy, 1),
        "difference": difference_text(row),
        "time": duration_text(row.seconds),
    }


def _answers(samples: Sequence[Mapping[str, Any]], kind: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Samples of one kind in words; classes the run does not name are left out."""
    chosen = [s for s in samples if s["kind"] == kind and max(s["truth"], s["label"]) < len(names)]
    return [
        {
            "image": sample["image"],
            "small": sample["width"] <= SMALL_IMAGE,
            "right": sample["truth"] == sample["label"],
            "label": names[sample["label"]],
            "truth": names[sample["truth"]],
            "confidence": f"{100 * sample['confidence']:.0f} % sure",
        }
        for sample in chosen
    ]


def _command(run: Run) -> str:
    config, again = run.path / "config.yaml", f"{run.path}-again"
    return shlex.join(["semco", "train", _source(run), "--config", str(config), "--out", again])


def _config(name: str, run: Run) -> dict[str, str]:
    return {"name": name, "text": yaml.safe_dump(dict(run.config), sort_keys=False, allow_unicode=True)}


def _version() -> str:
    try:
        return version("semco")
    except PackageNotFoundError:
        return ""
