"""Notes on class names: what was not found or is a guess, and the setting that gives a name another term."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

import yaml

from semco.config.safe_yaml import load_yaml
from semco.labels.matching.spelling import shorten

SHOWN = 5  # names in a note


def alias_setting(name: str) -> str:
    """Return the setting that gives a class another term, quoted for a shell: ``'labels.aliases={dog: TERM}'``."""
    key = shorten(name)
    if _mapping(f"{{{key}: TERM}}") != {key: "TERM"}:  # such as yes, 1 and "a: b", which YAML reads as something else
        key = json.dumps(key, ensure_ascii=False)
    return shlex.quote(f"labels.aliases={{{key}: TERM}}")


def _mapping(text: str) -> object:
    try:
        return load_yaml(text)
    except (yaml.YAMLError, ValueError):
        return None


def alias_advice(name: str) -> str:
    """Return the words that tell how to give a class another term."""
    return f"choose a term with the setting {alias_setting(name)}"


def placed_notes(names: Sequence[str]) -> list[str]:
    """Return a note on the names that only the sentence encoder knows, if there are any."""
    if not names:
        return []
    return [
        f"not in the vocabulary, but placed near what they mean by the sentence encoder: {_listed(names)}; if a "
        f"place is wrong, {alias_advice(names[0])}."
    ]


def own_vector_notes(names: Sequence[str], classes: int) -> list[str]:
    """Return what is done about names that nothing knows, if there are any; ``classes`` is the number of all names."""
    if not names:
        return []
    if len(names) == classes:
        return ["no class name is in the vocabulary: the semantic head learns one vector per class, without groups."]
    return [
        f"not in the vocabulary, each with a vector of its own and no group: {_listed(names)}; "
        f"{alias_advice(names[0])}."
    ]


def correction_note(name: str, term: str) -> str:
    """Return a note on a name whose spelling was corrected."""
    return f"class {shorten(name)!r} was read as {term!r}; if that is wrong, {alias_advice(name)}."


def shared_term_note(name: str, term: str, others: Sequence[str]) -> str:
    """Return a note on a name that has the same term as other names."""
    listed = " and ".join(repr(shorten(other)) for other in sorted(others))
    return (
        f"class {shorten(name)!r} has the same term {term!r} as {listed}: their vectors were rotated slightly apart; "
        f"if the term is wrong, {alias_advice(name)}."
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(shorten(name)) for name in names[:SHOWN]) + (", ..." if names[SHOWN:] else "")
