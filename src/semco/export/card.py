"""The model card: what a model was trained on, how well it works, and what limits and licences it has."""

from __future__ import annotations

import html
import re
from pathlib import Path

from semco.data.names import is_none_of_these
from semco.evaluation.model_file import load_model
from semco.evaluation.thresholds import describe_share
from semco.files import write_text
from semco.methods import describe_method
from semco.predict.engine import About
from semco.run.folder import RunFolder
from semco.run.result import RunResult, describe_probe, describe_untested

VECTOR_LICENCES = {
    "bundled": "bundled with SemCo, CC BY-SA 4.0 (GloVe, word2vec, ConceptNet)",
    "plain": "bundled with SemCo, CC BY-SA 4.0 (GloVe, word2vec, ConceptNet)",
    "encoder": "computed by a text encoder; its licence applies",
}


def card_of(model: Path) -> Path:
    """Return the file of a model's card: ``MODEL_CARD.md`` beside it, unless that is about something else."""
    usual = model.with_name("MODEL_CARD.md")
    if not usual.exists() or (usual.is_file() and usual.read_bytes().startswith(f"{_title(model)}\n".encode())):
        return usual
    return model.with_name(f"MODEL_CARD-{model.name}.md")


def as_text(name: str) -> str:
    """Return an untrusted name escaped so that Markdown shows it literally: no HTML, links or pictures."""
    return re.sub(r"([\\`*\[\]|!])", r"\\\1", html.escape(" ".join(name.split()), quote=False))


def _title(model: Path) -> str:
    return f"# Model card of {model.name}"


def write_card(folder: RunFolder, model: Path, file: Path, about: About, fields: str = "") -> None:
    """Write the card of an exported model of a finished run, after fields for programs (YAML)."""
    result = folder.result()
    sections = [
        _title(model),
        _intended_use(about),
        _data(folder, result),
        _accuracy(result),
        _classes(about),
        _limits(result, about),
        _licences(folder),
    ]
    write_text(file, fields + "\n\n".join(sections) + "\n")


def _intended_use(about: About) -> str:
    height, width = about.image_size
    which = f" The {about.head} head predicts." if len(about.heads) > 1 else ""
    return (
        f"Image classifier with {len(about.class_names)} classes. It reads RGB photos of any size, crops the centre "
        f"square and resizes it to {height} x {width} pixels.{which}"
    )


def _data(folder: RunFolder, result: RunResult) -> str:
    config = folder.config()
    lines = [
        "## Training",
        f"- Data: `{Path(config.data.source).name}`, {result.num_labels:,} labelled images; the others without labels.",
        f"- Method: {describe_method(result.method)} (`{result.method}`), {result.steps:,} steps, seed "
        f"{config.training.seed}.",
        f"- Network: `{config.model.backbone}`.",
    ]
    if result.probe is not None and result.probe.is_kept:
        lines.append("- The model is a linear probe on the features of the pretrained network, which was better.")
    return "\n".join(lines)


def _accuracy(result: RunResult) -> str:
    lines = ["## Measured accuracy"]
    if result.accuracy is not None:
        lines.append(f"The model is {result.accuracy.describe()}.")
        if (probe := describe_probe(result)) is not None:
            lines.append(f"{probe[0].upper()}{probe[1:]}.")
        if (untested := describe_untested(result)) is not None:
            lines.append(f"{as_text(untested)}.")
    if result.test_accuracy is None:
        known = "" if result.accuracy else ", so the accuracy is not known"
        return "\n\n".join([*lines, f"There were no test images{known}."])
    rows = [("accuracy", result.test_accuracy), ("top-5 accuracy", result.top5)]
    rows += [("right group by name", result.group_accuracy), ("calibration error", result.calibration_error)]
    lines.append(f"On {result.test_images:,} test images, which selected nothing:")
    table = ["| | |", "|---|---|", *(f"| {name} | {value:.1%} |" for name, value in rows if value is not None)]
    lines.append("\n".join(table))
    lines.append("The calibration error is the mean gap between confidence and accuracy (15 bins).")
    return "\n\n".join(lines)


def _classes(about: About) -> str:
    single = [name for name, group in zip(about.class_names, about.groups, strict=True) if name == group]
    groups = list(dict.fromkeys(group for group in about.groups if group not in single))
    lines = ["## Classes", f"Classes: {', '.join(map(as_text, about.class_names))}."]
    if groups:
        lines.append("Grouped by name:\n\n" + "\n".join(f"- {as_text(each)}" for each in groups))
    return "\n\n".join(lines)


def _limits(result: RunResult, about: About) -> str:
    weak = sorted((value, name) for name, value in result.per_class.items() if value is not None)[:5]
    lines = [
        "## Limits",
        _others(about),
        "- Photos unlike those of the training data (other cameras, places, angles) are classified less well.",
        "- Only the centre square of a photo is seen.",
    ]
    if weak:
        lines.append("- Lowest accuracy: " + ", ".join(f"{as_text(name)} {value:.0%}" for value, name in weak) + ".")
    return "\n".join(lines)


def _others(about: About) -> str:
    """Return sentences about photos that show none of the classes."""
    if any(map(is_none_of_these, about.class_names)):
        return "- Photos of something else have a class of their own, which knows only what it was trained on."
    line = "- Every photo gets one of the classes, also a photo of something else."
    if not about.thresholds:
        return line
    shares = "; ".join(f"below {each.least:.3f} {describe_share(each.share)}" for each in about.thresholds)
    return f"{line} Its familiarity tells many of those: a threshold {shares}."


def _licences(folder: RunFolder) -> str:
    labels = folder.config().labels
    vectors = VECTOR_LICENCES.get(labels.source, f"your own, from `{labels.path}`; check their licence")
    provenance = load_model(folder.model).description.provenance or "random, so they have no licence of their own"
    return f"## Licences\n\n- Label vectors: {vectors}.\n- Initial weights of the network: {provenance}."
