"""The one exception that is meant for the person at the keyboard."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Bad input: one sentence that names the thing, the value and the way out.

    The command line prints the sentence and exits with code 2; a traceback is never shown for it.
    """


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint such as ``; did you mean 'semco'?``, or an empty string when nothing is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown(kind: str, word: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not in a registry."""
    options = sorted(known)
    return UserError(f"unknown {kind} {word!r}{nearest(word, options) or '.'} Known: {', '.join(options)}.")
