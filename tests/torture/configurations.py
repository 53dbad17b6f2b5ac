"""Damaged and nasty configurations: YAML text and single settings give a configuration or are refused."""

from __future__ import annotations

from functools import cache
from random import Random

import yaml

from semco.config import Config, configure
from torture.attack import Attack, Case, Failure
from torture.mutations import damage

VALUES = (
    "2020-99-99", "2020-01-01", "!!int abc", "!!float", "!!float x", "!!timestamp x", "!!binary '%%'", "!!set {a, b}",
    "!!python/object:os.system x", "!!null x", "!!bool maybe", "!!omap [a]", "!!pairs [1]", "!!seq x", "!!map x",
    "[" * 5000, "{a: " * 3000, "9" * 6000, "-" + "9" * 6000, "0x" + "f" * 6000, "0b" + "1" * 9000, "1e999999", ".inf",
    "-.inf", ".nan", "~", "null", "yes", "off", "''", '"\\ud800"', '"\\x00"', '"\\0"', "|\n", ">-\n a", "[]", "{}",
    "[[]]", "{a: b}", "[1, 2]", "*a", "&a [*a]", "&a {a: *a}", "1_000", "1:30", "190:20:30", "0o17", "017", "1.5",
    "-1", "0",
    "1", "500", "a,b", "=", "<<", "{<<: 5}", "? a", "- a", "%YAML 3.0", "--- a\n--- b", "@x", "`x`", "!x y", "!", "&",
    "*",
    '"' + "a" * 5000 + '"', "'é'", '"\\U0010ffff"', "true", "1e3", "1e-400", "12345678901234567890", "cpu", "semco",
    "[" + "a, " * 2000 + "b]", "\t", "a: b: c", "2001-12-14t21:59:43.10-05:00", "0000-00-00", "99999-01-01", "!!str 5",
    "{? [a] : b}", "{[a]: b}", "{{a: b}: c}", "{1: 2}", "{null: 1}", "{a: 1, a: 2}", "../x", "~/x", "/dev/zero", "/",
)  # fmt: skip
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
)
METHODS = ("semco", "semco_plus", "fixmatch", "freematch", "mixmatch", "supervised", "nothing", "devise", "simmatch")


def case(case: Case) -> str:
    random = case.random
    way = random.choice((changed_text, nasty_document, nasty_field, setting, setting))
    config = way(random)
    check(config)
    return "accepted"


def check(config: Config) -> None:
    """Raise a failure unless the configuration can be written and read again."""
    text = config.to_yaml()
    text.encode()
    if Config.from_yaml(text) != config:
        raise Failure("a configuration changes when it is written and read", text)


def changed_text(random: Random) -> Config:
    text = example(random).encode()
    return Config.from_yaml(damage(random, text).decode(errors=random.choice(("replace", "surrogateescape", "ignore"))))


def example(random: Random) -> str:
    return text_of(random.choice(METHODS[:6]))


@cache
def text_of(method: str) -> str:
    return configure(options={"method": {"name": method}}).to_yaml()


def nasty_document(random: Random) -> Config:
    """A document without regard to the fields that there are."""
    if random.random() < 0.05:
        return Config.from_yaml(BOMB + f"{random.choice(('data', 'labels', 'method'))}: {{classes: *i}}\n")
    section = random.choice(
        ("data", "training", "method", "optim", "labels", "", "a", "null", "5", "[a]", "data.source")
    )
    value = random.choice(VALUES)
    return Config.from_yaml(
        random.choice((value, f"{section}: {value}", f"- {value}", f"{section}:\n  {value}: {value}"))
    )


def nasty_field(random: Random) -> Config:
    """A valid configuration in which one to three fields have nasty values."""
    lines = example(random).splitlines()
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(lines))
        key = lines[at].partition(":")[0]
        lines[at] = f"{key}: {random.choice(VALUES)}"
    return Config.from_yaml("\n".join(lines))


def setting(random: Random) -> Config:
    key = random.choice(dotted_fields())
    if random.random() < 0.15:
        key = random.choice(
            ("", ".", "..", "a.", ".a", "data", "method", "data.source.x", "training..steps", "a" * 3000, "\x00")
        )
    settings = [f"{key}{random.choice(('=', '=', '=', '= ', ''))}{random.choice(VALUES)}"]
    if random.random() < 0.3:
        settings.insert(0, f"method={random.choice(METHODS)}")
    return configure(settings=settings)


@cache
def dotted_fields() -> list[str]:
    values = yaml.safe_load(Config().to_yaml())
    return [f"{section}.{field}" for section, fields in values.items() for field in fields]


ATTACK = Attack("configurations", cases=3000, minutes=2, case=case)
