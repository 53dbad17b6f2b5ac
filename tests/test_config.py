"""What a configuration makes of values that people write."""

from __future__ import annotations

from typing import Any

import pytest

from semco.config import Config, changed_fields
from semco.errors import UserError
from semco.config import configure


@pytest.mark.parametrize("written", ["on", "off", "auto", "'on'", "'off'"])
def test_a_switch_may_be_written_bare(written: str) -> None:
    """YAML reads on and off as truth values."""
    assert configure(settings=[f"training.compile={written}"]).training.compile == written.strip("'")


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"method": "fixmatch"}, ["method.lambda_u=2"]),
        ({}, ["method=fixmatch", "method.lambda_u=2"]),
        ({"method": {"name": "fixmatch", "lambda_u": 2}}, ["method=fixmatch"]),
        ({"method": {"name": "semco", "tau_e": 0.5}}, ["method=fixmatch", "method.lambda_u=2"]),
    ],
)
def test_a_bare_name_of_a_method_is_its_section(options: dict[str, Any], settings: list[str]) -> None:
    method = configure(options=options, settings=settings).method.model_dump()
    assert (method["name"], method["lambda_u"]) == ("fixmatch", 2)


def test_a_section_without_a_name_is_semcos() -> None:
    method = configure(options={"method": {"scoring": "paper"}}, settings=["method.name=semco"]).method
    assert method.model_dump()["scoring"] == "paper"


@pytest.mark.parametrize("text", ["data.classes=[bag", "training.device='cpu"])
def test_a_setting_that_is_no_yaml(text: str) -> None:
    with pytest.raises(UserError, match=r"--set .* is not valid YAML"):
        configure(settings=[text])


@pytest.mark.parametrize("values", [None, "training", [1]])
def test_what_is_no_mapping_is_no_configuration(values: Any) -> None:
    with pytest.raises(UserError, match="a configuration is a mapping of sections, not"):
        Config.parse(values)


def test_an_empty_section_says_nothing() -> None:
    assert Config.from_yaml("data:\ntraining:\n  steps: 3\n") == configure(options={"training": {"steps": 3}})


def test_changed_fields_are_named_with_both_values() -> None:
    old, new = {"a": {"b": 1, "c": [2]}, "d": 3}, {"a": {"b": 1, "c": [4]}, "d": 3, "e": None, "f": 5}
    assert changed_fields(old, new) == {"a.c": ([2], [4]), "f": (None, 5)}
    assert changed_fields({"data": {"source": "here"}}, {"data": {"source": "there"}}) == {}


@pytest.mark.parametrize("values", [{"optim": {"lr": float("inf")}}, {"training": {"seed": 2**63}}])
def test_numbers_that_cannot_be_computed_with_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"optim\.lr|training\.seed"):
        configure(options=values)
