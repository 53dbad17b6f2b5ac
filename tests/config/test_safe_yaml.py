"""Malformed YAML in configuration files and settings: one sentence for each, and bounded work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from semco.config import configure, read_yaml
from semco.config.layers import parse_setting
from semco.config.safe_yaml import load_yaml
from semco.errors import UserError

ALIASES = "a0: &a0 [1, 1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
DEEP_ALIASES = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 60))
MALFORMED = {
    "2020-99-99": "'2020-99-99' is not a valid timestamp",
    "!!timestamp soon": "'soon' is not a valid timestamp",
    "!!int abc": "'abc' is not a valid int",
    "!!int": "'' is not a valid int",
    "!!float": "'' is not a valid float",
    "!!bool maybe": "'maybe' is not a valid bool",
    "9" * 6000: "is not a valid int",
    "0x" + "f" * 6000: "a whole number has more than 64 bits",
    "[" * 5000: "nested more than 50 deep",
    "{a: " * 5000: "nested more than 50 deep",
    '"\\U00110000"': "an escape or a directive is invalid",
    '"\\Uffffffff"': "an escape or a directive is invalid",
    "[1, 2": "not valid YAML",
    "0000-01-01": "is not a valid timestamp",
    ":".join(["1"] * 400) + ".0": "is not a valid float",
}


@pytest.mark.parametrize(("value", "reason"), MALFORMED.items(), ids=[text[:20] for text in MALFORMED])
def test_a_malformed_value_is_a_sentence(value: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^setting 'training.steps=.*the value is not valid YAML \(") as setting:
        parse_setting(f"training.steps={value}")
    file = tmp_path / "c.yaml"
    file.write_text(f"training:\n  steps: {value}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"c\.yaml is not valid YAML: ") as whole:
        configure(file=file)
    for error in (setting, whole):
        assert reason in str(error.value)
        assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &x {b: *x}", "a value contains itself"),
        ("a: &x [*x]", "a value contains itself"),
        ("a: &x {<<: *x}", "a value contains itself"),
        (ALIASES, "aliases make more than 100,000 values"),
        (DEEP_ALIASES, "aliases nest lists and mappings more than 50 deep"),
        ("a: 1 # " + "x" * 2**20, "characters, and at most 1,048,576 are read"),
        ("a: b: c", "mapping values are not allowed here"),
        ("a: !!python/name:os.system x", "could not determine a constructor"),
    ],
)
def test_a_hostile_document_is_a_sentence(text: str, reason: str) -> None:
    with pytest.raises(UserError, match=r"^my\.yaml is not valid YAML: ") as error:
        read_yaml(text, "my.yaml")
    assert reason in str(error.value)


def test_aliases_and_merge_keys_are_read() -> None:
    assert load_yaml("a: &x {b: 1}\nc: {<<: *x, d: [*x, 2]}") == {"a": {"b": 1}, "c": {"b": 1, "d": [{"b": 1}, 2]}}


def test_valid_values_are_those_of_pyyaml() -> None:
    for text in ("1", "0x10", "1.5", "yes", "null", "2020-02-03", "[a, {b: c}]", '"\\udce9"', str(2**64 - 1)):
        assert load_yaml(text) == yaml.safe_load(text)


def test_a_setting_may_hold_a_file_name_that_is_not_utf_8() -> None:
    name = os.fsdecode(b"caf\xe9")
    assert parse_setting(f"data.source={name}") == {"data": {"source": name}}
    config = configure(settings=[f"data.source={name}"])
    assert read_yaml(config.to_yaml())["data"]["source"] == name


def test_a_setting_with_thousands_of_parts_is_a_sentence() -> None:
    with pytest.raises(UserError, match="has 5000 parts before its =; give the name of one field"):
        parse_setting("a." * 4999 + "a=1")


def test_a_configuration_file_is_a_regular_text_file_of_limited_size(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * (2**22 + 1))
    (tmp_path / "latin.yaml").write_bytes(b"# caf\xe9")
    for name, message in {
        "pipe.yaml": "is a named pipe, not a regular file",
        "large.yaml": "has more than the 4,194,304 bytes that are read",
        "latin.yaml": "is not a text file in UTF-8",
        "none.yaml": "is missing",
        ".": "is a folder, not a regular file",
    }.items():
        with pytest.raises(UserError, match=message):
            configure(file=tmp_path / name)
