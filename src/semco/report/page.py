"""A self-contained HTML page about one or more runs: no network, no scripts, light and dark."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from semco.errors import UserError
from semco.evaluation.samples import SMALL_IMAGE, Sample
from semco.files import readable_name, write_text
from semco.report.analysis.sections import run_sections
from semco.report.charts import pseudo_label_charts, training_charts
from semco.report.classes import class_rows, confusions, label_groups
from semco.report.names import group_by_experiment, method_title
from semco.report.runs import Run, read_runs
from semco.report.sections import page_template
from semco.report.tables import (
    MISSING,
    Row,
    accuracy_title,
    difference_title,
    evaluated_kind,
    format_accuracy,
    format_difference,
    format_duration,
    format_num_labels,
    format_runs,
    mean_or_none,
    seed_warning,
    summary_rows,
)
from semco.run.result import RunResult, describe_probe, describe_untested

MOST_SKIPPED = 100  # skipped images that the page lists


def write_report(
    paths: Sequence[Path],
    out: Path,
    title: str | None = None,
    samples: Sequence[Sample] | None = None,
    variants: Mapping[Path, str] | None = None,
) -> Path:
    """Write the page about run folders to ``out`` and return ``out``.

    All runs are compared; one of them, the main run, is shown in detail: the first of those that made pseudo-labels
    with the most heads, so that it is not the baseline. ``samples`` replace those in the folder of the main run.
    Unfinished runs are shown as far as they are. ``variants`` are what the user has typed for runs of a comparison.
    """
    if not paths:
        raise UserError("a report needs at least one run folder.")
    runs = read_runs(paths, variants)
    write_text(
        out, readable_name(page_template("page.html").render(_context(runs, title, samples)))
    )  # class names need not be UTF-8
    return out


def _context(runs: Sequence[Run], title: str | None, samples: Sequence[Sample] | None) -> dict[str, Any]:
    """Return the values that page.html shows."""
    main_run, rows = max(runs, key=lambda run: len(run.pseudo_label_heads())), summary_rows(runs)
    experiments = group_by_experiment(runs)
    name, repeats = next((name, group) for name, group in experiments.items() if main_run in group)
    experiments = {name: repeats, **experiments}  # the main run comes first in every legend
    shown = main_run.evaluation.get("samples") or [] if samples is None else [s.to_json() for s in samples]
    pseudo_label_metrics = main_run.metric_names("pseudo/")
    return {
        "title": title or f"{method_title(main_run)} on {_data_name(main_run)}",
        "eyebrow": f"SemCo report · {_data_name(main_run)}",
        "notice": _unfinished_notice(main_run),
        "verdict": _verdict(main_run, name, rows),
        "tiles": _tiles(repeats),
        "rows": [_table_row(row) for row in rows],
        "difference_title": difference_title(rows),
        "seed_warning": seed_warning(rows),
        "kind": evaluated_kind(runs),
        "accuracy_title": accuracy_title(evaluated_kind(runs)),
        "main_run": f"{name}, seed {main_run.seed}" if len(runs) > 1 else "",
        "training": training_charts(experiments, main_run),
        "groups": label_groups(main_run),
        "pseudo_labels": pseudo_label_charts(main_run),
        "truth_is_known": any(main_run.series(m)[0] for m in pseudo_label_metrics if m.endswith("/accuracy")),
        "analysis": run_sections(runs),
        "confusions": confusions(main_run),
        "random_samples": _sample_tiles(shown, "random", main_run.class_names),
        "mistakes": _sample_tiles(shown, "mistake", main_run.class_names),
        "surest": _sample_tiles(shown, "sure", main_run.class_names),
        "least_sure": _sample_tiles(shown, "unsure", main_run.class_names),
        "evaluated": main_run.evaluated,
        "how_evaluated": main_run.how_evaluated,
        "has_photos": any(sample["width"] > SMALL_IMAGE for sample in shown),
        "classes": class_rows(main_run),
        "data_notes": [readable_name(note) for note in main_run.data.get("notes", ())],
        "skipped": [readable_name(text) for text in main_run.data.get("skipped", ())][:MOST_SKIPPED],
        "num_skipped": len(main_run.data.get("skipped", ())),
        "command": _train_command(main_run),
        "configs": [_config_text(name, group[0]) for name, group in experiments.items()],
        "version": _version(),
    }


def _data_name(run: Run) -> str:
    return Path(_source(run)).name


def _source(run: Run) -> str:
    return str(run.section("data").get("source", "fashion-mini"))


def _unfinished_notice(run: Run) -> str:
    if run.is_finished:
        return ""
    total = run.section("training").get("steps")
    of_total = f" of {total:,}" if isinstance(total, int) else ""
    resume = shlex.join(["semco", "resume", str(run.path)])
    return f"This run is not finished: its log ends at step {run.steps:,}{of_total}. Resume it with: {resume}"


def _verdict(run: Run, name: str, rows: Sequence[Row]) -> str:
    """Return the main result in one or two sentences."""
    if run.accuracy() is None:
        return _held_out_verdict(run)
    own = next(row for row in rows if row.name == name)
    several = own.finished > 1
    seeds = f" (mean of {own.finished} seeds)" if several else _interval(run)
    sentence = (
        f"{own.name} classifies {own.accuracy_text} of {_test_images(run)} correctly{seeds}, "
        f"trained with {_describe_labels(run)}.{'' if several else _beside_probe(run)}"
    )
    others = [f"{row.name} {row.accuracy_text}" for row in rows if row is not own and row.accuracy is not None]
    return f"{sentence} For comparison: {', '.join(others)}." if others else sentence


def _interval(run: Run) -> str:
    return f" ({run.result.accuracy.interval})" if run.result and run.result.accuracy else ""


def _beside_probe(run: Run) -> str:
    """Return a sentence about the linear probe on the same images, if there was one."""
    line = describe_probe(run.result) if run.result else None
    return f" {line[0].upper()}{line[1:]}." if line else ""


def _untested(result: RunResult) -> str:
    """Return a sentence about the classes that could not be tested, if there are any."""
    line = describe_untested(result)
    return f" {line}." if line else ""


def _held_out_verdict(run: Run) -> str:
    """Return the main result of a run without test accuracy."""
    title, (_, values) = method_title(run), run.series("validation_accuracy")
    if run.result is not None and run.result.accuracy is not None:
        return (
            f"{title} is {run.result.accuracy.describe()}.{_untested(run.result)} The data set has no test images."
            f"{_beside_probe(run)}"
        )
    if not values:
        return f"{title} has not been evaluated on any image yet."
    so_far = "" if run.is_finished else " so far"
    return f"{title} classifies {format_accuracy(values[-1])} of the validation images correctly{so_far}."


def _test_images(run: Run) -> str:
    count = run.result.test_images if run.result else None
    return f"{count:,} test images" if count else "the test images"


def _describe_labels(run: Run) -> str:
    """Return how many labels were used for training; images held out for validation do not count."""
    num_labels, per_class = run.num_labels, run.labels_per_class
    if num_labels is None:
        return "all available labels" if run.result is None else f"all {run.result.num_labels:,} labels"
    if per_class and num_labels == per_class * len(run.class_names):
        return f"{num_labels:,} labels ({per_class} per class)"
    if run.is_label_limited:
        return f"{num_labels:,} labels"
    return f"{num_labels:,} labels (all except {len(run.split['validation']):,} held out for validation)"


@dataclass(frozen=True)
class Tile:
    name: str
    value: str
    note: str = ""


def _tiles(repeats: Sequence[Run]) -> list[Tile]:
    """Return the key numbers of an experiment: means over its finished runs, or those of an unfinished run so far."""
    runs = [run for run in repeats if run.is_finished] or repeats[:1]
    run, classes = runs[0], len(runs[0].class_names)
    results = [run.result for run in runs if run.result is not None]
    error = mean_or_none(result.calibration_error for result in results)
    top5 = mean_or_none(result.top5 for result in results) if classes > 5 else None
    kind = evaluated_kind(runs)
    num_labels = results[0].num_labels if results else None
    steps = f"{run.steps:,} steps" if run.steps else ""  # fitted heads take none
    tiles = [
        Tile(
            accuracy_title(kind).capitalize(),
            format_accuracy(mean_or_none(run.accuracy(kind) for run in runs)),
            _accuracy_note(runs, classes),
        ),
        Tile("Linear probe", format_accuracy(mean_or_none(map(_probe_accuracy, results))), _probe_note(results)),
        Tile(
            "Group accuracy", format_accuracy(mean_or_none(map(_group_accuracy, runs))), "a class of the correct group"
        ),
        Tile("Top-5 accuracy", format_accuracy(top5)),
        Tile("Labels", format_num_labels(num_labels or run.num_labels), f"{classes} classes" if classes else ""),
        Tile("Time", format_duration(mean_or_none(run.seconds for run in runs)), steps),
        Tile("Calibration error", format_accuracy(error), "|confidence − accuracy|"),
    ]
    return [tile for tile in tiles if tile.value != MISSING]


def _accuracy_note(runs: Sequence[Run], classes: int) -> str:
    """Return the interval of one run, else what guessing would achieve."""
    result = runs[0].result
    if len(runs) == 1 and result is not None and result.accuracy is not None:
        return result.accuracy.interval
    return f"chance: {100 / classes:.1f} %" if classes else ""


def _probe_accuracy(result: RunResult) -> float | None:
    """Return the accuracy of the linear probe where the accuracy of the run was measured."""
    return result.probe.accuracy.value if result.probe and result.probe.accuracy else None


def _probe_note(results: Sequence[RunResult]) -> str:
    is_kept = any(result.probe is not None and result.probe.is_kept for result in results)
    return "kept: better on held-out labels" if is_kept else "the same labels and images"


def _group_accuracy(run: Run) -> float | None:
    """Return the group accuracy; None if no classes share a group, because it then equals the accuracy."""
    group_ids = run.labels.get("groups") or []
    return run.result.group_accuracy if run.result and len(set(group_ids)) < len(group_ids) else None


def _table_row(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "num_labels": format_num_labels(row.num_labels),
        "runs": format_runs(row),
        "accuracy": row.accuracy_text,
        "percent": None if row.accuracy is None else round(100 * row.accuracy, 1),
        "difference": format_difference(row),
        "time": format_duration(row.seconds),
    }


def _sample_tiles(samples: Sequence[Mapping[str, Any]], kind: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the samples of one kind with class names; samples of classes without a name are left out."""
    chosen = [s for s in samples if s["kind"] == kind and max(s["truth"], s["label"]) < len(names)]
    return [
        {
            "source": f"data:image/{sample['format']};base64,{sample['image']}",
            "is_small": sample["width"] <= SMALL_IMAGE,
            "is_correct": sample["truth"] == sample["label"],
            "prediction": names[sample["label"]],
            "truth": names[sample["truth"]] if sample["truth"] >= 0 else "",
            "confidence": f"confidence {100 * sample['confidence']:.0f} %",
        }
        for sample in chosen
    ]


def _train_command(run: Run) -> str:
    """Return the command that repeats a run in a new folder."""
    config, out = run.path / "config.yaml", f"{run.path}-again"
    return shlex.join(["semco", "train", _source(run), "--config", str(config), "--out", out])


def _config_text(name: str, run: Run) -> dict[str, str]:
    return {"name": name, "text": yaml.safe_dump(dict(run.config), sort_keys=False, allow_unicode=True)}


def _version() -> str:
    try:
        return version("semco")
    except PackageNotFoundError:
        return ""
