"""The spelling of terms in a vocabulary."""

from __future__ import annotations

import re
import unicodedata

ARTICLES = frozenset({"a", "an", "the"})
_APOSTROPHES = str.maketrans(dict.fromkeys("‘’ʼ`´′＇", "'"))
# A file name that is not UTF-8 contains its bytes as surrogates (PEP 383), which are read as Latin-1 here.
SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd") | {0xDC00 + byte: chr(byte) for byte in range(0x80, 0x100)}
_READABLE = SURROGATES | _APOSTROPHES
_GAPS = re.compile(r"[\s_\-‐‑‒–—]+")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2028-\u202e\u2060\ufe0e\ufe0f\ufeff\x00-\x08\x0e-\x1b\x7f]")


def normalise(text: str) -> str:
    """Return a name in the spelling of a term: ``"The Jack-O’-Lantern"`` -> ``jack_o'_lantern``.

    Unicode NFKC, lower case, ``_`` for spaces and hyphens, one kind of apostrophe, no invisible characters, no
    articles. An article stays if it is the last word (``vitamin_a``) or the only one.
    """
    if text.isascii() and text.isalpha() and text.islower():  # fast path for most words of a vector file
        return text
    text = unicodedata.normalize("NFKC", text.translate(_READABLE)).lower().translate(_APOSTROPHES)
    words = [word for word in _GAPS.split(_INVISIBLE.sub("", text)) if word]
    return "_".join(drop_articles(words))


def drop_articles(words: list[str]) -> list[str]:
    """Return the words without articles; the last word always stays."""
    return [word for word in words[:-1] if word not in ARTICLES] + words[-1:]
