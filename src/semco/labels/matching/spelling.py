"""Spellings of a class name: the keys under which it is looked up, and other forms of its words.

A key is a name as the vocabulary spells it: lower case, words joined by ``_``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

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


PREPOSITIONS = ("of", "in", "on", "at", "with", "without", "for", "from", "by", "to", "under", "over")
STOP_WORDS = frozenset((*ARTICLES, *PREPOSITIONS, "and", "or", "not", "other"))
NEGATIONS = frozenset({"no", "not", "non", "without"})
# Words that number things but do not name one.
CODE_WORDS = frozenset(
    [
        "category",
        "class",
        "cluster",
        "code",
        "file",
        "folder",
        "frame",
        "group",
        "id",
        "image",
        "img",
        "item",
        "label",
        "level",
        "model",
        "no",
        "number",
        "object",
        "part",
        "photo",
        "pic",
        "picture",
        "product",
        "sample",
        "scan",
        "set",
        "sku",
        "stage",
        "type",
        "variant",
        "version",
    ]
)
APOSTROPHES = str.maketrans("‘’ʼ`´", "'''''")
LONGEST_SPLIT = 40  # letters; longer words are not split in two


def spell(name: str) -> str:
    """Return a name as a key: letters, digits and apostrophes in lower case, ``_`` between words.

    Articles inside the name are dropped, as in every term. A leading article stays: dropping it is a route of its own.
    """
    text = unicodedata.normalize("NFKC", name.translate(SURROGATES)).lower().translate(APOSTROPHES)
    words = [word for word in re.split(r"[^\w']+|_+", text) if word.strip("'")]
    return "_".join(words[:1] + drop_articles(words[1:])).strip("'")


@lru_cache(maxsize=1024)
def spellings(name: str) -> tuple[str, ...]:
    """Return all keys of a name: as written, camel case split, and without numbers, apostrophes and accents."""
    plain = spell(name)
    split = spell(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))  # AnnualCrop
    keys = [plain, split]
    keys += [re.sub(r"^(n\d{8}|\d+)_+(?=\D)", "", key) for key in keys]  # 001.Laysan_Albatross, n02085620-pug
    keys += [re.sub(r"'+", "", key) for key in keys] + [re.sub(r"'s?(?=_|$)", "", key) for key in keys]
    keys += [_strip_accents(key) for key in keys]
    if plain == strip_article(plain):  # otherwise a match without the article would count as exact
        keys.insert(1, normalise(name))
    return tuple(dict.fromkeys(key for key in (re.sub(r"_+", "_", key).strip("_") for key in keys) if key))


def alternatives(name: str) -> tuple[str, ...]:
    """Return the parts of a name with several meanings ("T-shirt/top", "crane (bird)"); most names have one part."""
    pieces = re.split(r"[/,;|()\[\]]", name)
    return tuple(dict.fromkeys(piece.strip() for piece in pieces if spell(piece))) or (name,)


def shorten(name: str, limit: int = 60) -> str:
    """Return a name for a message, cut after ``limit`` letters."""
    return name if len(name) <= limit else f"{name[:limit]}…"


def strip_article(key: str) -> str:
    """Return a key without a leading article."""
    first, _, rest = key.partition("_")
    return rest if rest and first in ARTICLES else key


def is_negated(key: str) -> bool:
    """Return whether a key denies what its other words name: "no defect", "not ripe", "without helmet"."""
    first, _, rest = strip_article(key).partition("_")
    return bool(rest) and first in NEGATIONS


def last_two_words(key: str) -> tuple[str, ...]:
    """Return the last two words of a key with three words or more, unless one of them has no meaning of its own."""
    words = key.split("_")
    usable = len(words) > 2 and all(map(is_content_word, words[-2:]))
    return ("_".join(words[-2:]),) if usable else ()


def head_noun(key: str) -> tuple[str, ...]:
    """Return the word that names the thing: the last one, or the last one before a preposition ("bird in flight")."""
    words = _before_preposition(key)
    return words[-1:] if "_" in strip_article(key) and is_content_word(words[-1]) else ()


def phrase_words(key: str) -> tuple[str, ...]:
    """Return the words of a phrase before a preposition, if all of them have a meaning of their own."""
    words = _before_preposition(key)
    return words if all(map(is_content_word, words)) else ()


def _before_preposition(key: str) -> tuple[str, ...]:
    words = strip_article(key).split("_")
    cut = next((i for i, word in enumerate(words) if i > 0 and word in PREPOSITIONS), len(words))
    return tuple(words[:cut])


def is_readable(name: str) -> bool:
    """Return whether a name may mean something: it has a word, and neither denies another one nor is a code."""
    keys = spellings(name)
    has_word = any(is_content_word(word) for key in keys for word in key.split("_"))
    return has_word and not any(is_negated(key) or is_code(key) for key in keys)


def is_code(key: str) -> bool:
    """Return whether a key is a number or letter with a word that only says so: "type_a", "class_1", "img_001"."""
    words = key.split("_")
    others = [word for word in words if word not in CODE_WORDS]
    return len(others) < len(words) and not any(map(is_content_word, others))


def is_content_word(word: str) -> bool:
    """Return whether a word has a meaning of its own: no stop word, number or single letter."""
    return len(word) > 1 and word not in STOP_WORDS and any(c.isalpha() for c in word)


def word_forms(key: str) -> Iterator[str]:
    """Yield a word or phrase as it is, in the singular, and with its words joined or split."""
    singular = (key, *lemmas(key))
    yield from singular
    for form in singular:
        yield from joined_or_split(form)


def lemmas(key: str) -> tuple[str, ...]:
    """Return a phrase with its last word as a dictionary form, and with its plural ending removed."""
    from simplemma import lemmatize

    phrase, separator, word = key.rpartition("_")
    forms = [lemmatize(word, lang="en").lower(), *_strip_plural(word)]
    return tuple(phrase + separator + form for form in dict.fromkeys(forms) if form not in ("", word))


def joined_or_split(key: str) -> Iterator[str]:
    """Yield neighbouring words joined (``sea_lion``: ``sealion``), or one word split (``rollerskate``)."""
    words = key.split("_")
    if len(words) > 1:
        yield "".join(words)
    if len(words) > 2:
        for i in range(len(words) - 1):
            yield "_".join([*words[:i], words[i] + words[i + 1], *words[i + 2 :]])
    elif len(words) == 1 and len(key) <= LONGEST_SPLIT:
        for i in range(len(key) - 2, 0, -1):
            yield f"{key[:i]}_{key[i:]}"


def _strip_accents(key: str) -> str:
    if key.isascii():
        return key
    return "".join(c for c in unicodedata.normalize("NFKD", key) if not unicodedata.combining(c))


def _strip_plural(word: str) -> Iterator[str]:
    """Yield a word without its plural ending, for words that no dictionary lists ("rollerskates")."""
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies"):
            yield word[:-3] + "y"
        if word.endswith("es"):
            yield word[:-2]
        yield word[:-1]
