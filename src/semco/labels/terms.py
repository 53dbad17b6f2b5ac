"""The one spelling under which a name is looked up and stored."""

from __future__ import annotations

import re
import unicodedata

ARTICLES = frozenset({"a", "an", "the"})
_APOSTROPHES = str.maketrans(dict.fromkeys("‘’ʼ`´′＇", "'"))
_GAPS = re.compile(r"[\s_\-‐‑‒–—]+")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2028-\u202e\u2060\ufe0e\ufe0f\ufeff\x00-\x08\x0e-\x1b\x7f]")


def normalise(text: str) -> str:
    """``"The Jack-O’-Lantern"`` -> ``jack_o'_lantern``.

    Unicode NFKC, lower case, spaces and hyphens -> ``_``, one kind of apostrophe, no invisible characters, no
    articles. An article stays where it ends the name (``vitamin_a``) or is all of it.
    """
    if text.isascii() and text.isalpha() and text.islower():  # nearly every word of a vector file
        return text
    text = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES)).lower().translate(_APOSTROPHES)
    words = [word for word in _GAPS.split(_UNSEEN.sub("", text)) if word]
    return "_".join(drop_articles(words))


def drop_articles(words: list[str]) -> list[str]:
    """The words without articles, but never without the last one."""
    return [word for word in words[:-1] if word not in ARTICLES] + words[-1:]
