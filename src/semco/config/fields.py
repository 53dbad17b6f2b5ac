"""Configuration values before validation: read from YAML, as a flat table of dotted names, and how two differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from semco.config.safe_yaml import load_yaml
from semco.errors import UserError


def flat_fields(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values as ``{"dotted.key": value}``."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flat_fields(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def changed_fields(
    old: Mapping[str, Any], new: Mapping[str, Any], ignored: frozenset[str] = frozenset()
) -> dict[str, tuple[Any, Any]]:
    """Return the dotted names in which two configurations differ, each with the old and the new value."""
    one, other = flat_fields(old), flat_fields(new)
    names = [name for name in {**one, **other} if name not in ignored]
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


def read_yaml(text: str, where: str = "the configuration") -> dict[str, Any]:
    """Return a YAML mapping of sections as plain values."""
    try:
        values = load_yaml(text)
    except yaml.YAMLError as error:
        raise UserError(f"{where} is not valid YAML: {' '.join(str(error).split())}.") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{where} must be a mapping of sections, not {type(values).__name__}.")
    return {section: content for section, content in values.items() if content is not None}
