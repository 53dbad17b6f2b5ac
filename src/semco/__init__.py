"""SemCo trains an image classifier from a handful of labels, using what the class names mean."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semco.config import Config
    from semco.errors import UserError
    from semco.estimator import SemCoClassifier
    from semco.experiment import resume, train
    from semco.predict.predictor import Predictor, load

__version__ = "0.2.0"
__all__ = ["Config", "Predictor", "SemCoClassifier", "UserError", "__version__", "load", "resume", "train"]

# The module of each public name; imported when first used, so that the command line starts fast.
_HOMES = {
    "Config": "semco.config",
    "Predictor": "semco.predict.predictor",
    "SemCoClassifier": "semco.estimator",
    "UserError": "semco.errors",
    "load": "semco.predict.predictor",
    "resume": "semco.experiment",
    "train": "semco.experiment",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'semco' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, also those that have not been used yet."""
    return sorted(__all__)
