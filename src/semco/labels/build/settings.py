"""Settings of a build and their defaults; docs/lab/labels.md has the measurements behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semco.errors import UserError

# The relations that imply that two things look alike (section 4.5 of the paper), with the weight of their edges.
RELATIONS: Mapping[str, float] = {
    "SimilarTo": 1.0,
    "InstanceOf": 1.0,
    "IsA": 1.0,
    "FormOf": 1.0,
    "Synonym": 0.3,  # covers all senses of a word, and most of them are not the pictured one
    "EtymologicallyRelatedTo": 0.3,
    "DefinedAs": 1.0,
}


@dataclass(frozen=True)
class BuildSettings:
    """Hyper-parameters of retrofitting and of the SVD."""

    dim: int = 128  # size of the stored vectors
    iterations: int = 10  # of retrofitting
    translated_alpha: float = 0.5  # weight of a vector translated from another set (`infer`); one of a file has 1
    composed_alpha: float = 2.0  # the same for a vector composed of the term's words
    singular_power: float = 0.5  # each direction is scaled by its singular value to this power
    is_centred: bool = True  # subtract the mean of each set of vectors first


def check_settings(relations: Mapping[str, float], settings: BuildSettings, max_words: int | None) -> None:
    """Raise a `UserError` for settings that no store can be built with."""
    if not relations or not all(weight > 0 for weight in relations.values()):
        raise UserError(f"relations = {dict(relations)}: name at least one relation, each with a positive weight.")
    if settings.dim < 2 or settings.iterations < 0:
        raise UserError(
            f"dim = {settings.dim} must be at least 2, and iterations = {settings.iterations} must not be negative."
        )
    if not (settings.translated_alpha >= 0 and settings.composed_alpha >= 0):
        raise UserError(
            f"translated_alpha = {settings.translated_alpha:g} and composed_alpha = {settings.composed_alpha:g} must"
            " not be negative."
        )
    if max_words is not None and max_words < 2:
        raise UserError(f"max_words = {max_words}: a vocabulary needs at least 2 terms.")
