"""What a configuration makes of values that people write."""

from __future__ import annotations

from typing import Any

import pytest

from semco.config import Config, changed_fields, configure
from semco.errors import UserError
from semco.run.identity import changes_of_command, changes_of_comparison, changes_of_run, experiment_fields


@pytest.mark.parametrize(
    ("written", "expected"),
    [("on", True), ("off", False), ("true", True), ("'on'", True), ("'off'", False), ("auto", "auto")],
)
def test_a_switch_may_be_written_in_several_ways(written: str, expected: bool | str) -> None:
    skip = configure(settings=[f"training.skip={written}"]).training.skip
    assert (skip, type(skip)) == (expected, type(expected))


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


def test_a_section_without_a_name_is_of_the_default_method() -> None:
    method = configure(options={"method": {"scoring": "paper"}}, settings=["method.name=semco_plus"]).method
    assert method.model_dump()["scoring"] == "paper"
    assert configure(options={"method": {"scoring": "paper"}}).method.name == "semco_plus"


def test_another_threshold_rule_starts_a_new_section() -> None:
    """Fields of one rule are not carried over to another, and stay with the same rule."""
    first = {"method": {"thresholds": {"rule": "fixed", "tau_e": 0.5}}}
    assert configure(options=first, settings=["method.thresholds.rule=freematch"]).method.thresholds.rule == "freematch"  # type: ignore[attr-defined]
    kept = configure(options=first, settings=["method.thresholds.tau_o=0.6"]).method.thresholds  # type: ignore[attr-defined]
    assert (kept.rule, kept.tau_e, kept.tau_o) == ("fixed", 0.5, 0.6)


@pytest.mark.parametrize("text", ["data.classes=[bag", "training.device='cpu"])
def test_a_setting_that_is_no_yaml(text: str) -> None:
    with pytest.raises(UserError, match=r"setting .* is not valid YAML"):
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
    assert changed_fields(old, new, frozenset({"f"})) == {"a.c": ([2], [4])}


def config_of(**sections: Any) -> Config:
    return configure(options=sections)


def test_moved_data_are_the_same_run() -> None:
    here, there = config_of(data={"source": "a/photos"}), config_of(data={"source": "b/photos"})
    assert changes_of_run(here.model_dump(mode="json"), there.model_dump(mode="json")) == {}
    assert changes_of_command(here, there) == {}
    assert list(changes_of_command(here, config_of(data={"source": "b/birds"}))) == ["data.source"]
    assert list(changes_of_command(here, config_of(data={"source": "cifar10"}))) == ["data.source"]
    longer = config_of(data={"source": "a/photos"}, training={"steps": 7})
    assert changes_of_run(here.model_dump(mode="json"), longer.model_dump(mode="json")) == {"training.steps": (None, 7)}


def test_the_seed_does_not_make_another_experiment_and_mu_does() -> None:
    fields = [
        experiment_fields(config_of(training=each).model_dump(mode="json")) for each in ({}, {"seed": 5}, {"mu": 5})
    ]
    assert fields[0] == fields[1] != fields[2]
    assert experiment_fields(config_of(training={"device": "cpu"}).model_dump(mode="json")) == fields[0]


def test_a_comparison_is_fair_when_only_method_labels_and_seed_differ() -> None:
    one = config_of(method={"name": "fixmatch"}, training={"seed": 1})
    assert changes_of_comparison(one, config_of(labels={"eps": 0.0})) == {}
    assert list(changes_of_comparison(one, config_of(model={"backbone": "wrn-10-1"}))) == ["model.backbone"]


@pytest.mark.parametrize("values", [{"optim": {"lr": float("inf")}}, {"training": {"seed": 2**63}}])
def test_numbers_that_cannot_be_computed_with_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"optim\.lr|training\.seed"):
        configure(options=values)
