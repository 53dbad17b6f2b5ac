"""The exception for errors that the user can correct, the warning for what the user should know, and their words."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

LONGEST = 1500  # characters of a message


class UserError(ValueError):
    """An error that the user can correct; its message names the thing, the value and the way out in one sentence.

    The command line prints the message without a traceback and exits with code 2. The middle of a long message is left
    out, because values and reasons of libraries may be quoted from a damaged file and be of any length.
    """

    def __init__(self, message: str) -> None:
        most = LONGEST // 2
        super().__init__(message if len(message) <= LONGEST else f"{message[:most]} ... {message[-most:]}")


class NotFiniteError(UserError):
    """A model that predicts numbers that are not finite: its weights are damaged, or its training diverged."""


class ExistsError(UserError):
    """Something is already there that would be overwritten."""


class SemcoWarning(UserWarning):
    """Something that the user should know and that does not stop the work, in one sentence.

    The command line prints the message without the place in the source; it does not print warnings of libraries.
    """


def brief(value: object, most: int = 200) -> str:
    """Return a value for a message, shortened to at most ``most`` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def nearest(word: str, known: Iterable[str], most: int = 1) -> str:
    """Return a hint such as ``; did you mean 'semco'?``, or an empty string if no known word is similar."""
    close = difflib.get_close_matches(word, list(known), n=most, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def unknown(kind: str, word: str, known: Iterable[str], where: str | None = None) -> UserError:
    """Return the error for a word that is not among the known ones, for example the name of a method.

    It lists the known words. If they are too many, ``where`` says what lists them, and the three closest are suggested.
    """
    options = sorted(known)
    if where is not None:
        return UserError(f"unknown {kind} {brief(word)}{nearest(word, options, 3) or '.'} {where}")
    return UserError(f"unknown {kind} {brief(word)}{nearest(word, options) or '.'} Known: {', '.join(options)}.")


def data_size(count: float) -> str:
    """Return a number of bytes for people: "512 B", "3.1 kB", "48 MB", "1.2 GB"."""
    unit = "B"
    for larger in ("kB", "MB", "GB"):
        if count >= 999.5:
            count, unit = count / 1000, larger
    return f"{count:.{int(unit != 'B' and count < 9.95)}f} {unit}"


def duration(seconds: float, rounding: Callable[[float], int] = round) -> str:
    """Return a duration for people: "40 s", "12 min", "3.5 h", "12 days"; ``rounding`` may be ``math.ceil``."""
    if seconds < 90:
        return f"{max(1, rounding(seconds))} s"
    if seconds < 90 * 60:
        return f"{rounding(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{rounding(seconds / 360) / 10:.1f} h"
    return f"{rounding(seconds / 3600 / 24)} days"


def made_earlier(what: object, way_out: str = "train it again") -> UserError:
    """Return the error for a file in another format than this version reads."""
    return UserError(f"{what} was made by an earlier version of SemCo; {way_out}.")
