"""Names of earlier versions, each with the sentence that gives the new one."""

from __future__ import annotations

SEMCO_RENAMED = (
    "the method that earlier versions called 'semco' is now 'semco_plus' (ours), and 'semco' is the paper's method"
)
# Dotted field -> what to use instead.
FIELDS = {
    "data.labels": "data.num_labels",
    "method.trust": "method.thresholds.weight (semco_plus) or method.weight (freematch, softmatch)",
    "method.threshold_decay": "method.thresholds.decay (semco_plus) or method.decay (freematch, softmatch)",
    "method.threshold_warmup": "method.thresholds.warmup (semco_plus) or method.warmup (freematch, softmatch)",
    "method.lesson": "method.cotraining_target",
    "method.lambda_f": "method.thresholds.lambda_f",
}
# Values of training.precision.
PRECISIONS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "bfloat16 or float32"}
# Fields that only SemCo had under its old name.
OLD_SEMCO = {"method.scoring", "method.lesson", "method.trust", "method.thresholds", "method.lambda_f"}
# Recipe -> the layers that replace it.
RECIPES = {
    "semco-paper": "semco",
    "semco-reference": "semco_reference",
    "semco-no-grouping": "semco_plus,no-grouping",
    "semco-no-cotraining": "semco_plus,no-cotraining",
    "semco-one-hot-targets": "semco_plus,one-hot-targets",
    "semco-vectors-as-they-are": "semco_plus,uncentred",
    "semco-hard-labels": "semco_plus,hard-labels",
    "semco-full-trust": "semco_plus,full-weight",
    "semco-fixed": "semco_plus,fixed-thresholds",
    "semco-flexmatch": "semco_plus,flexmatch-thresholds",
    "semco-softmatch": "semco_plus,softmatch-thresholds",
}


def retired_value(dotted: str, value: object) -> str | None:
    """Return the sentence for a value that a field had in an earlier version; None for any other."""
    if dotted == "labels.targets" and value == "centred":
        return "labels.targets = 'centred' is now method.vectors = 'centred' of semco_plus and devise, their default."
    if dotted == "training.precision" and isinstance(value, str) and value in PRECISIONS:
        return f"training.precision = {value!r} belongs to an earlier version; use {PRECISIONS[value]}."
    return None


def retired_field(dotted: str) -> str | None:
    """Return the sentence for a field of an earlier version; None for any other."""
    if dotted in FIELDS or dotted in OLD_SEMCO:
        instead = f"; use {FIELDS[dotted]}" if dotted in FIELDS else ""
        renamed = f" ({SEMCO_RENAMED})" if dotted in OLD_SEMCO else ""
        return f"config key {dotted!r} belongs to an earlier version{instead}{renamed}."
    return None


def retired_recipe(name: str) -> str | None:
    """Return the sentence for a recipe of an earlier version; None for any other name."""
    instead = RECIPES.get(name)
    if instead is None:
        base, is_small = name.removesuffix("-cpu"), name.endswith("-cpu")
        cell, dash, method = base.rpartition("-")
        if dash and "-mu" in cell and method in ("fixmatch", "semco"):
            instead = f"{cell},{method}" + (",cpu" if is_small else "")
    if instead is None:
        return None
    return f"recipe {name!r} belongs to an earlier version: use {instead!r} ({SEMCO_RENAMED})."
