"""The accuracy of a model as the pages show it: with its interval, its photos and that of the linear probe."""

from __future__ import annotations

from typing import Any

from semco.run.accuracy import Accuracy, percent
from semco.run.result import ProbeResult


def shown_accuracy(accuracy: Accuracy | None, probe: ProbeResult | None) -> dict[str, Any] | None:
    """Return plain values; None if there were no photos to measure it on."""
    if accuracy is None:
        return None
    beside = ""
    if probe is not None and probe.is_kept:
        beside = "the model is the linear probe, which was better where labels were held out"
    elif probe is not None and probe.accuracy is not None and probe.difference is not None:
        beside = f"a linear probe: {percent(probe.accuracy.value)} ({probe.difference.describe()})"
    return {
        "value": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
        "right": accuracy.right,
        "total": accuracy.total,
        "photos": accuracy.photos,
        "probe": beside,
    }
