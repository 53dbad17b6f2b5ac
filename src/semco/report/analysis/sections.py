"""What pseudo-labelling did in one or more runs, as sections of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from semco.config import flat_fields
from semco.errors import UserError
from semco.evaluation.samples import SMALL_IMAGE, picture_url
from semco.report.analysis.confused import ConfusedImage, most_confused, training_pictures
from semco.report.analysis.counts import ClassCounts, add_counts, has_both_heads, read_class_counts
from semco.report.analysis.similarity import SimilarClasses, find_similar_classes
from semco.report.names import group_by_experiment, method_title
from semco.report.pseudo_label_figures import (
    convergence_chart,
    disagreement_charts,
    ensemble_chart,
    field_chart,
    reliability_chart,
    similar_class_charts,
)
from semco.report.runs import Run, read_runs
from semco.report.sections import ImageTile, Section
from semco.report.tables import format_accuracy
from semco.run.folder import RunFolder
from semco.run.identity import experiment_fields
from semco.training.pool_statistics import EARLY_EPOCHS
from semco.training.statistics import TEST_ACCURACY

TEST_TITLE = "Test error, shown in this figure only; nothing was chosen by it"


def analysis_sections(
    paths: Sequence[Path], *, has_images: bool = True, variants: Mapping[Path, str] | None = None
) -> list[Section]:
    """Return the sections about run folders; what the runs do not have is left out."""
    if not paths:
        raise UserError("an analysis needs at least one run folder.")
    runs = read_runs(paths, variants)
    sections = [*run_sections(runs, has_images=has_images), _convergence(group_by_experiment(runs))]
    return [section for section in sections if not section.is_empty]


def run_sections(runs: Sequence[Run], *, has_images: bool = True) -> list[Section]:
    """Return the sections that the report of the runs has too: everything but the convergence, which it shows."""
    experiments = group_by_experiment(runs)
    counts = {name: found for name, group in experiments.items() if (found := _counts(group)) is not None}
    sections = [_calibration(experiments), _field(runs)]
    names = runs[0].class_names
    classes = _similar_classes(runs[0]) if names and counts else None
    if classes is not None and classes.most:
        early = {name: _early_steps(experiments[name][0]) for name in counts}
        sections = [*_pseudo_labels(counts, early, classes, names), *sections]
        if has_images:
            sections.append(_confused(experiments, counts, classes, names))
    return [section for section in sections if not section.is_empty]


def _similar_classes(run: Run) -> SimilarClasses | None:
    return find_similar_classes(run.class_names, RunFolder(run.path).config().labels)


def _early_steps(run: Run) -> int:
    return EARLY_EPOCHS * RunFolder(run.path).config().training.steps_per_epoch


def _counts(runs: Sequence[Run]) -> ClassCounts | None:
    """Return the counts per class; None if there are none, or the true classes of the pool are not known."""
    found = [counts for run in runs if (counts := read_class_counts(run.path)) is not None]
    return add_counts(found) if any(counts.has_classes for counts in found) else None


def _pseudo_labels(
    counts: Mapping[str, ClassCounts], early: Mapping[str, int], classes: SimilarClasses, names: Sequence[str]
) -> list[Section]:
    """Return tables over whole runs, and the paper's figures over their first 10 epochs; ``early``: these in steps."""
    first = {name: each.until(early[name]) for name, each in counts.items()}
    charts = [chart for name, each in first.items() for chart in similar_class_charts(name, each, classes)]
    others = [chart for name, each in first.items() for chart in disagreement_charts(name, each, classes)]
    if (ensemble := ensemble_chart(first)) is not None:
        others.append(ensemble)
    return [
        Section(
            "Pseudo-labels in numbers", f"{NUMBERS} {_list_classes(classes, names)}", *comparison_table(counts, classes)
        ),
        Section("Look-alike and distinct classes", FIGURE_2, charts=tuple(charts)),
        Section("Co-training", FIGURE_4, charts=tuple(others)),
    ]


def _list_classes(classes: SimilarClasses, names: Sequence[str]) -> str:
    most, least = (", ".join(names[class_id] for class_id in kind) for kind in (classes.most, classes.least))
    return f"Look-alikes: {most}. Distinct: {least}."


NUMBERS = (
    "Means over the whole run. Look-alikes are the four classes whose label vectors are closest to another class, "
    "distinct the four whose nearest class is farthest. Disagreement: both heads confident of different classes, in "
    "the first and in the last third of the log lines."
)
FIRST = (
    "over the first 10 epochs, as in the paper (in shorter runs: over the whole run). "
    "Curves are smoothed over a tenth of the log lines. A band is one standard deviation between classes."
)
FIGURE_2 = f"How many images of a class are retained, and how many of these get the right label, {FIRST}"
FIGURE_4 = f"How often the heads are confident of different classes, and how accurate the retained labels are, {FIRST}"


def comparison_table(
    counts: Mapping[str, ClassCounts], classes: SimilarClasses
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return columns and rows: per method and head the ratio and accuracy of both kinds, and the disagreement."""
    columns = (
        "method", "head", "retained: look-alikes", "retained: distinct", "accuracy: look-alikes", "accuracy: distinct",
        "accuracy: all classes", "disagreement: first third", "disagreement: last third",
    )  # fmt: skip
    rows = []
    for name, each in counts.items():
        for head in each.heads:
            values = [
                each.mean(head, chosen, measure)
                for measure in ("ratio", "accuracy")
                for chosen in (classes.most, classes.least)
            ]
            values.append(each.mean(head, range(each.num_classes), "accuracy"))
            values += _disagreement(each) if head == "ensemble" else [None, None]
            rows.append((name, head.replace("_", "-"), *map(format_accuracy, values)))
    return columns, tuple(rows)


def _disagreement(counts: ClassCounts) -> list[float | None]:
    """Return the disagreement in the first and in the last third of the log lines."""
    third = max(1, len(counts.steps) // 3)
    parts = (slice(None, third), slice(-third, None))
    return [
        ClassCounts(counts.steps[part], counts.heads, counts.values[:, part]).mean(
            "ensemble", range(counts.num_classes), "disagreement"
        )
        for part in parts
    ]


def _convergence(experiments: Mapping[str, Sequence[Run]]) -> Section:
    """Return the error over the steps: on validation images or, in runs that hold out none, on test images."""
    charts = []
    for metric, title in (("validation_accuracy", "Validation error"), (TEST_ACCURACY, TEST_TITLE)):
        curves = {name: _errors(runs, metric) for name, runs in experiments.items()}
        if (chart := convergence_chart({name: each for name, each in curves.items() if each}, title)) is not None:
            charts.append(chart)
    return Section("Convergence", "Error of the EMA weights.", charts=tuple(charts))


def _errors(runs: Sequence[Run], metric: str) -> list[tuple[list[float], list[float]]]:
    series = [run.series(metric) for run in runs]
    return [(steps, [1 - value for value in values]) for steps, values in series if steps]


def _calibration(experiments: Mapping[str, Sequence[Run]]) -> Section:
    charts, has_several = [], False
    for name, runs in experiments.items():
        heads = runs[0].evaluation.get("heads") or {}
        has_several |= len(heads) > 1
        if (chart := reliability_chart(f"Reliability of {name}", heads)) is not None:
            charts.append(chart)
    which = ", for each head that can predict" if has_several else ""
    return Section("Calibration", f"Accuracy against confidence on the test images{which}.", charts=tuple(charts))


def _field(runs: Sequence[Run]) -> Section:
    """Return error against a field, if the runs of a method differ in one field that is a number."""
    flat = [flat_fields(experiment_fields(run.config)) for run in runs]
    names = {name for fields in flat for name in fields if name not in ("method.name",)}
    shared = {name for name in names if all(name in fields for fields in flat)}
    differing = [name for name in sorted(shared) if len({str(fields[name]) for fields in flat}) > 1]
    numeric = [n for n in differing if all(isinstance(f[n], int | float) and not isinstance(f[n], bool) for f in flat)]
    if len(numeric) != 1 or set(differing) - {numeric[0]}:
        return Section("Error against a field")
    errors: dict[str, dict[float, list[float]]] = {}
    for run, fields in zip(runs, flat, strict=True):
        if (accuracy := run.accuracy()) is not None:
            errors.setdefault(method_title(run), {}).setdefault(float(fields[numeric[0]]), []).append(1 - accuracy)
    if all(len(by_value) == 1 for by_value in errors.values()):  # each method has its own value: nothing to compare
        return Section(f"Error against {numeric[0]}")
    chart = field_chart(numeric[0], errors)
    return Section(f"Error against {numeric[0]}", "Points are single runs.", charts=(chart,) if chart else ())


def _confused(
    experiments: Mapping[str, Sequence[Run]],
    counts: Mapping[str, ClassCounts],
    classes: SimilarClasses,
    names: Sequence[str],
) -> Section:
    """Return the most confused images of the look-alikes, in the first run with both heads, else the first run."""
    with_heads = [name for name in counts if has_both_heads(counts[name])] or list(counts)
    if not with_heads:
        return Section("Most confused images")
    run = experiments[with_heads[0]][0]
    images = most_confused(run.path, classes.most)
    lead = (
        f"{with_heads[0]}, seed {run.seed}: unlabelled images of look-alike classes that were most often given another "
        "of these classes as a pseudo-label."
    )
    return Section("Most confused images", lead, images=tuple(_tiles(run, images, names)))


def _tiles(run: Run, images: Sequence[ConfusedImage], names: Sequence[str]) -> list[ImageTile]:
    pictures = training_pictures(run.path, [image.index for image in images])
    return [
        ImageTile(
            picture_url(pictures[image.index]),
            names[image.truth],
            ", ".join(f"{count}x {names[label]}" for label, count in image.wrong.items()) + f" of {image.seen}",
            is_small=pictures[image.index].shape[-1] <= SMALL_IMAGE,
        )
        for image in images
        if image.index in pictures
    ]
