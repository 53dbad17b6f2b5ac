"""What a configuration makes of values that people write."""

from __future__ import annotations

from typing import Any

import pytest

from semco.config import changed_fields
from semco.errors import UserError
from semco.recipes import configure


@pytest.mark.parametrize("written", ["on", "off", "auto", "'on'", "'off'"])
def test_a_switch_may_be_written_bare(written: str) -> None:
    """YAML reads on and off as truth values."""
    assert configure(settings=[f"training.compile={written}"]).training.compile == written.strip("'")


def test_changed_fields_are_named_with_both_values() -> None:
    old, new = {"a": {"b": 1, "c": [2]}, "d": 3}, {"a": {"b": 1, "c": [4]}, "d": 3, "e": None, "f": 5}
    assert changed_fields(old, new) == {"a.c": ([2], [4]), "f": (None, 5)}
    assert changed_fields({"data": {"source": "here"}}, {"data": {"source": "there"}}) == {}


@pytest.mark.parametrize("values", [{"optim": {"lr": float("inf")}}, {"training": {"seed": 2**63}}])
def test_numbers_that_cannot_be_computed_with_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"optim\.lr|training\.seed"):
        configure(options=values)
