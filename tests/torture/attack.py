"""An attack is a function that damages something, calls the package, and checks what came back.

A case survives if it returns or raises a `UserError`. It fails if it raises anything else, takes too long or too much
memory, writes outside its folder, or returns something wrong.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import semco
from semco.errors import UserError

PACKAGE = f"{Path(semco.__file__).parent}{os.sep}"  # a clone may lie in a folder called semco, with the tests in it
LONGEST_MESSAGE = 2000  # characters; a longer message is not a sentence


class Failure(Exception):  # noqa: N818 (an outcome, not an error of this program)
    """The package did something wrong without raising an exception; ``kind`` says what, without details of the case."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.kind, self.detail = kind, detail


@dataclass(frozen=True)
class Case:
    """What one case is made from. The same seed, attack and number always give the same case."""

    random: Random
    folder: Path  # empty; the only place that the case may write to
    outside: Path  # a folder with one file, which must not change
    originals: Any  # what ``prepare`` returned


@dataclass(frozen=True)
class Attack:
    """A kind of damage. ``case`` returns a word or two about how the case ended."""

    name: str
    cases: int  # number of cases by default
    minutes: float  # its part of the 20 minutes that all attacks may take
    case: Callable[[Case], str]
    prepare: Callable[[Path], Any] = lambda _folder: None  # writes undamaged files into a folder, once
    limit: float = 10.0  # seconds; a case that takes longer hangs
    memory: int | None = 512 << 20  # bytes that a case may allocate; None: as many as it likes


@dataclass(frozen=True)
class Outcome:
    """How a case ended; ``failure`` is the kind of failure, or None if the case survived."""

    number: int
    ending: str
    failure: str | None = None
    detail: str = ""


def case_random(seed: int, attack: str, number: int) -> Random:
    """Return the random generator of one case."""
    return Random(f"{seed} {attack} {number}")


def outcome_of(attack: Attack, number: int, case: Case) -> Outcome:
    """Run one case and return how it ended."""
    try:
        return Outcome(number, attack.case(case))
    except UserError as error:
        if len(str(error)) > LONGEST_MESSAGE:
            kind = f"a message of more than {LONGEST_MESSAGE:,} characters from {place_of(error)}"
            return Outcome(number, "failed", kind, str(error)[:LONGEST_MESSAGE])
        return Outcome(number, "refused")
    except Failure as failure:
        return Outcome(number, "failed", failure.kind, failure.detail)
    except BaseException as error:
        return Outcome(number, "failed", kind_of(error), "".join(traceback.format_exception(error)))


def kind_of(error: BaseException) -> str:
    """Return the type of an exception and the innermost function of the package that it passed through."""
    return f"{type(error).__name__} in {place_of(error)}"


def place_of(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(PACKAGE)]
    if not frames:
        return "the attack itself"
    return f"{frames[-1].filename.removeprefix(PACKAGE)}:{frames[-1].name}"
