"""The methods, one file each. Importing this package imports every method, which puts it into the registry."""

from __future__ import annotations

import importlib
import pkgutil

from semco.config import MethodConfig
from semco.errors import unknown
from semco.methods.base import FittedMethod, Forward, Head, Method, Pool
from semco.types import Task

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def build_method(config: MethodConfig, task: Task) -> Method[MethodConfig]:
    """Return the method that a configuration names, ready for a task."""
    if config.name not in Method.registry:
        raise unknown("method", config.name, Method.registry)
    return Method.registry[config.name](config, task)


def describe_method(name: str) -> str:
    """Return one line that says which method this is, and for our variant how to get the paper's method."""
    title = Method.registry[name].title
    return f"{title}; the paper's method is 'semco'" if name == "semco_plus" else title


__all__ = ["FittedMethod", "Forward", "Head", "Method", "Pool", "build_method", "describe_method"]
