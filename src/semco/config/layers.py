"""Layers of configuration values: defaults < recipes < a file < options < single settings. A later layer wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from semco.config.datasets import DATASETS, REGISTERED_DATASETS
from semco.config.recipes import Values, expand_recipes
from semco.config.safe_yaml import DEEPEST, LONGEST_TEXT, load_yaml, read_yaml
from semco.config.schema import AUTO, Config, method_name
from semco.errors import UserError, brief
from semco.files import read_text


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


# Alternatives: only one field of each group can be given; a layer that sets one of them resets the others.
ALTERNATIVES = (("training", ("steps", "epochs", "minutes")), ("data", ("num_labels", "labels_per_class")))
# Fields that may hold a path.
PATHS = (
    "data.source",
    "data.root",
    "data.labels_from",
    "data.unlabeled",
    "data.labelled_from",
    "labels.path",
    "labels.encoder",
)


@dataclass(frozen=True)
class Layer:
    """Configuration values and where they come from."""

    name: str  # "recipe paper", "file my.yaml", "options", "setting training.steps=500"
    values: Values


def layers_of(
    recipe: str | None = None,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
) -> list[Layer]:
    """Return the layers of a configuration, lowest first; ``recipe`` is one name or several, separated by commas."""
    recipes = expand_recipes(recipe.split(",")) if recipe else {}
    layers = [Layer(f"recipe {name}", dict(each.values)) for name, each in recipes.items()]
    if file is not None:
        layers.append(Layer(f"file {file}", _read_file(file)))
    if options:
        layers.append(Layer("options", dict(options)))
    layers += [Layer(f"setting {setting}", parse_setting(setting)) for setting in settings]
    return [*_data_defaults(layers), *layers]


def _data_defaults(layers: Sequence[Layer]) -> list[Layer]:
    """Return the lowest layer: the image size, backbone and eps of a registered data set, if it has its own."""
    sources = [(layer.values.get("data") or {}).get("source") for layer in layers if _has_data(layer)]
    name = next((str(source) for source in reversed(sources) if source is not None), "")
    values = REGISTERED_DATASETS[name].defaults() if name in REGISTERED_DATASETS else {}
    return [Layer(f"data set {name}", values)] if values else []


def _has_data(layer: Layer) -> bool:
    return isinstance(layer.values.get("data"), Mapping)


def configure(
    recipe: str | None = None,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
) -> Config:
    """Return the configuration that recipes, a YAML file, options and ``dotted.key=value`` settings make."""
    return merge_layers(layers_of(recipe, file, options, settings))


def merge_layers(layers: Sequence[Layer]) -> Config:
    """Return the configuration that the layers make, one on top of the other."""
    values: Values = {}
    for layer in layers:
        values = merge_layer(values, layer.values)
    return Config.parse(_with_absolute_paths(values))


def origins(layers: Sequence[Layer]) -> dict[str, str]:
    """Return, for each dotted field that is not at its default, the name of the layer that set it."""
    config = merge_layers(layers)
    defaults = Config.parse({"method": {"name": config.method.name}}).model_dump(mode="json")
    defaults["method"]["name"] = AUTO
    changed = changed_fields(defaults, config.model_dump(mode="json"))
    set_by: dict[str, str] = {}
    for layer in layers:
        set_by |= dict.fromkeys(flat_fields(layer.values), layer.name)
    return {name: _origin(name, set_by) for name in changed}


def _origin(name: str, set_by: Mapping[str, str]) -> str:
    """Return the layer that set a field, by its own name or by that of the section or list that holds it."""
    while name not in set_by and "." in name:
        name = name.rpartition(".")[0]
    return set_by.get(name, "default")


def merge_layer(values: Mapping[str, Any], new: Mapping[str, Any]) -> Values:
    """Merge a layer; if it sets one of several alternatives (steps, epochs, minutes), the others are reset."""
    for section, group in ALTERNATIVES:
        given = new.get(section)
        if isinstance(given, Mapping) and any(given.get(key) is not None for key in group):
            values = merge(values, {section: {key: None for key in group if given.get(key) is None}})
    return merge(values, new)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Values:
    """Return ``base`` with the values of ``over``, section by section.

    Another method or another threshold rule starts a new section, because the fields of the old one are not its own.
    """
    merged = dict(base)
    for key, new in over.items():
        old, value = (_as_section(key, v) for v in (merged.get(key), new))
        if isinstance(old, Mapping) and isinstance(value, Mapping) and not _is_another_kind(key, old, value):
            merged[key] = merge(old, value)
        else:
            merged[key] = value
    return merged


def _as_section(key: str, value: Any) -> Any:
    """Read a bare method or rule name as a section that has only a name."""
    kind = {"method": "name", "thresholds": "rule"}.get(key)
    return {kind: value} if kind is not None and isinstance(value, str) else value


def _is_another_kind(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if key == "method":
        return "name" in new and new["name"] != method_name(old)
    return key == "thresholds" and "rule" in new and "rule" in old and new["rule"] != old["rule"]


def parse_setting(text: str) -> Values:
    """Return ``dotted.key=value``, where the value is YAML, as nested values."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip(".").strip():
        raise UserError(f"a setting is dotted.key=value, for example training.steps=500, not {brief(text)}.")
    if not value.strip():
        raise UserError(f"setting {brief(text)} has no value; write {brief(key)[1:-1]}=null for no value.")
    parts = key.strip().split(".")
    if len(parts) > DEEPEST:
        raise UserError(f"setting {brief(text)} has {len(parts)} parts before its =; give the name of one field.")
    try:
        nested: Any = load_yaml(value)
    except yaml.YAMLError as error:
        reason = getattr(error, "problem", None) or " ".join(str(error).split())
        raise UserError(
            f"setting {brief(text)}: the value is not valid YAML ({reason}); put it in quotes, or close its brackets."
        ) from None
    for part in reversed(parts):
        nested = {part: nested}
    return dict(nested)


def _read_file(file: Path) -> Values:
    return read_yaml(read_text(file, most_bytes=4 * LONGEST_TEXT), str(file))


def _with_absolute_paths(values: Values) -> Values:
    """Make paths to existing files absolute, so that a run can be resumed from any folder."""
    for dotted in PATHS:
        section, _, field = dotted.partition(".")
        content = values.get(section)
        place = content.get(field) if isinstance(content, Mapping) else None
        if isinstance(place, str | Path) and place not in DATASETS and (path := _existing(place)) is not None:
            values = merge(values, {section: {field: str(path.resolve())}})
    return values


def _existing(place: str | Path) -> Path | None:
    """Return the path if it exists, else None; text that cannot be a path does not exist."""
    try:
        path = Path(place).expanduser()
        return path if path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, a null character, an unknown home folder
        return None
