"""The examples in the docstrings of what the page of the API shows are run, in the order of the page."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from contextlib import chdir
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import semco

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
# Functions that need what only a training step has.
WITHOUT_EXAMPLE = {"retained_mean"}


def shown(path: str) -> Any:
    """Return what a path of the page stands for: a module, a class or a function."""
    try:
        return import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(import_module(module), name)


def public_functions(value: Any) -> Iterator[Any]:
    if inspect.isfunction(value):
        yield value
    if isinstance(value, ModuleType):
        yield from (f for f in vars(value).values() if inspect.isfunction(f) and f.__module__ == value.__name__)


OBJECTS = [shown(path) for path in re.findall(r"^::: (\S+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)]


@pytest.mark.parametrize(
    "function", [f for value in OBJECTS for f in public_functions(value)], ids=lambda f: f.__name__
)
def test_every_public_function_has_an_example(function: Any) -> None:
    assert (">>> " in (function.__doc__ or "")) != (function.__name__ in WITHOUT_EXAMPLE)


def test_the_examples_are_true(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"semco": semco, "np": np, "torch": torch}
    runner = doctest.DocTestRunner()
    with chdir(tmp_path):
        for value in OBJECTS:
            functions = vars(value) if isinstance(value, ModuleType) else {}
            for test in doctest.DocTestFinder().find(value, value.__name__, globs={**functions, **names}):
                runner.run(test)
    assert runner.tries > 20
    assert runner.failures == 0, capsys.readouterr().out
