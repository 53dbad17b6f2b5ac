"""Telling runs apart: which ones repeat the same experiment, and what to call each experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from semco.config import Config, flat_fields
from semco.methods import Method
from semco.report.runs import Run
from semco.run.identity import experiment_fields


def experiments(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs by experiment (same configuration but for the seed), each under a name of its own."""
    by_config: dict[str, list[Run]] = {}
    for run in runs:
        by_config.setdefault(json.dumps(experiment_fields(run.config), sort_keys=True), []).append(run)
    groups = list(by_config.values())
    return dict(zip(_names([group[0] for group in groups]), groups, strict=True))


def title_of(method: str) -> str:
    """The method's own title without its citation; the bare name of a method that is not known (any more)."""
    known = Method.registry.get(method)
    return known.title.partition(" (")[0] if known else method


def _names(runs: Sequence[Run]) -> list[str]:
    """Method titles, followed by what sets a run apart from others of its method; no name comes twice.

    A field that has its default value goes without saying: an ablation is named by what it leaves out.
    """
    fields = [experiment_fields(run.config) for run in runs]
    names = [_name(run, own, runs, fields) for run, own in zip(runs, fields, strict=True)]
    return [f"{name} #{i + 1}" if names.count(name) > 1 else name for i, name in enumerate(names)]


def _name(run: Run, own: Mapping[str, Any], runs: Sequence[Run], fields: Sequence[Mapping[str, Any]]) -> str:
    rivals = [f for other, f in zip(runs, fields, strict=True) if other.method == run.method]
    keys = sorted({key for rival in rivals for key in rival})
    differing = [k for k in keys if any(rival.get(k) != own.get(k) for rival in rivals)]
    if not differing:
        return title_of(run.method)
    defaults = _defaults(run.method)
    told = [k for k in differing if k in own and (k not in defaults or own[k] != defaults[k])]
    values = ", ".join(f"{key.split('.')[-1]}={_short(own[key])}" for key in told)
    return f"{title_of(run.method)} ({values})" if told else title_of(run.method)


def _defaults(method: str) -> dict[str, Any]:
    """Every field's value where nothing else is said; nothing of a method that is not known (any more)."""
    known = Method.registry.get(method)
    return flat_fields(Config(method=known.Config(name=method)).model_dump(mode="json")) if known else {}


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    if len(text) > 24 and "/" in text:
        return f"…{text[-23:]}"  # of a path the end tells more
    return text if len(text) <= 24 else f"{text[:23]}…"
