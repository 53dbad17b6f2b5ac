"""The routes from a key to a term of the vocabulary: the fall-back strategy of the paper's supplement (section B).

`STEPS` lists the routes in the order in which they are tried. No route picks a word at random.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from semco.labels.matching.spelling import (
    LONGEST_SPLIT,
    head_noun,
    is_code,
    is_content_word,
    joined_or_split,
    last_two_words,
    lemmas,
    phrase_words,
    strip_article,
    word_forms,
)
from semco.labels.store import VectorStore

SHORTEST_HALF = 4  # letters of each half of a compound
COMMON = 20_000  # frequency rank below which a term may be half of a compound
SHORTEST_CORRECTED = 5  # letters; in shorter words one edit often gives another word ("cat", "car")
RARELY_NOUNS = frozenset({"can", "will", "may", "might", "must"})
VOWELS = frozenset("aeiouy")
NOUNS = Path(__file__).parent / "nouns" / "nouns.txt.gz"
KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")

Terms = tuple[str, ...]  # the result of a route: one term, several terms whose mean is used, or none


class Vocabulary:
    """The terms of a store, with an index for spelling corrections that is built on first use."""

    def __init__(self, store: VectorStore) -> None:
        self.store = store

    def first(self, candidates: Iterable[str]) -> Terms:
        """Return the first candidate that is a term."""
        return next(((key,) for key in candidates if key and key in self.store), ())

    def is_common(self, word: str) -> bool:
        """Return whether a word is among the most frequent terms."""
        position = self.store.index(word)
        return position is not None and self.store.rank(position) < COMMON

    def one_edit_away(self, key: str) -> list[str]:
        """Return the terms with the same first letter one insertion, deletion, replacement or swap away.

        The most frequent comes first.
        """
        from rapidfuzz.distance import OSA
        from rapidfuzz.process import extract

        found = []
        for length in (len(key) - 1, len(key), len(key) + 1):
            positions, terms = self._by_start_and_length.get((key[0], length), ([], []))
            hits = extract(key, terms, scorer=OSA.distance, score_cutoff=1, limit=None)
            found += [(self.store.rank(positions[i]), term) for term, _, i in hits]
        return [term for _, term in sorted(found)]

    def similar_spellings(self, key: str, n: int = 3) -> list[str]:
        """Return the ``n`` terms whose spelling is most similar to ``key``, for an error message."""
        from rapidfuzz.distance import OSA
        from rapidfuzz.process import extract

        cut = key[:LONGEST_SPLIT]  # the start of a very long name is enough for a hint
        found = extract(cut, self.store.terms(), scorer=OSA.normalized_similarity, score_cutoff=0.5, limit=8 * n)
        ordered = sorted(found, key=lambda hit: (-round(hit[1], 6), self.store.rank(hit[2])))
        return [term for term, _, _ in ordered[:n]]

    @cached_property
    def _by_start_and_length(self) -> Mapping[tuple[str, int], tuple[list[int], list[str]]]:
        """Positions and terms of each first letter and length; one edit changes the length by one at most."""
        buckets: dict[tuple[str, int], tuple[list[int], list[str]]] = defaultdict(lambda: ([], []))
        for i, term in enumerate(self.store.terms()):
            positions, terms = buckets[term[:1], len(term)]
            positions.append(i)
            terms.append(term)
        return dict(buckets)


@dataclass(frozen=True)
class Step:
    """One route."""

    route: str  # its name
    find: Callable[[str, Vocabulary], Terms]
    keeps_meaning: bool  # these steps are tried first for every alternative of a name
    confidence: float  # from 0 to 1, how likely the term means what the name means
    drops_words: bool = False  # the dropped words may separate classes that share a term


def _exact(key: str, vocabulary: Vocabulary) -> Terms:
    return vocabulary.first([key])


def _without_article(key: str, vocabulary: Vocabulary) -> Terms:
    return vocabulary.first([strip_article(key)])


def _last_two_words(key: str, vocabulary: Vocabulary) -> Terms:
    return vocabulary.first(last_two_words(strip_article(key)))


def _lemma(key: str, vocabulary: Vocabulary) -> Terms:
    bare = strip_article(key)
    return vocabulary.first(form for phrase in (bare, *last_two_words(bare)) for form in lemmas(phrase))


def _joined(key: str, vocabulary: Vocabulary) -> Terms:
    bare = strip_article(key)
    return vocabulary.first(form for phrase in (bare, *lemmas(bare)) for form in joined_or_split(phrase))


def _before_of(key: str, vocabulary: Vocabulary) -> Terms:
    words = strip_article(key).split("_")
    if "of" not in words[1:]:
        return ()
    phrase = "_".join(words[: words.index("of", 1)])
    shorter = (phrase, *last_two_words(phrase), phrase.rpartition("_")[2])
    return vocabulary.first(form for part in shorter for form in word_forms(part) if is_content_word(part))


def _all_words(key: str, vocabulary: Vocabulary) -> Terms:
    """Return the words of a phrase up to a preposition, if all are known and the last alone would mislead.

    It misleads if it names no thing (The Mona Lisa) or mostly another part of speech (paint can).
    """
    words = phrase_words(key)
    if not words or (words[-1] not in RARELY_NOUNS and any(form in thing_nouns() for form in word_forms(words[-1]))):
        return ()
    terms = [vocabulary.first(word_forms(word)) for word in words]
    return tuple(dict.fromkeys(term for (term,) in terms)) if len(words) > 1 and all(terms) else ()


@cache
def thing_nouns() -> frozenset[str]:
    """Return the single-word nouns for things that can be photographed (``nouns/PROVENANCE.md``)."""
    return frozenset(gzip.decompress(NOUNS.read_bytes()).decode().split("\n"))


def _head_noun(key: str, vocabulary: Vocabulary) -> Terms:
    heads = head_noun(key) or _end_of_compound(strip_article(key), vocabulary)
    return vocabulary.first(form for head in heads for form in word_forms(head))


def _end_of_compound(word: str, vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the second half of a word that consists of two common words (``waterslide``: ``slide``)."""
    forms = (word, *lemmas(word))
    halves = ((form[:i], form[i:]) for form in forms for i in range(SHORTEST_HALF, len(form) - SHORTEST_HALF + 1))
    known = (
        (start, end)
        for start, end in halves
        if is_content_word(start) and vocabulary.is_common(start) and vocabulary.is_common(end)
    )
    return next(((end,) for _, end in known), ())


def _spelling_correction(key: str, vocabulary: Vocabulary) -> Terms:
    """Return the most frequent term one edit away, of a phrase as a whole or of a single word that is no English word.

    The head noun of a phrase alone is not corrected: with the other words it is more often a name than a misspelling.
    """
    bare = strip_article(key)
    for word in dict.fromkeys((bare, *lemmas(bare))):
        if len(word.replace("_", "")) >= SHORTEST_CORRECTED and not is_english_word(word):
            found = vocabulary.first(term for term in vocabulary.one_edit_away(word) if _is_correction(word, term))
            if found:
                return found
    return ()


def is_english_word(word: str) -> bool:
    """Return whether a large dictionary has a word, which is then no misspelling (``nevus``)."""
    from simplemma import is_known

    return "_" not in word and is_known(word, lang="en")


def _is_correction(key: str, term: str) -> bool:
    """Return whether the edit changed a long enough word, but not its first letter, and not a number."""
    if key.count("_") != term.count("_"):
        return False
    pairs = zip(key.split("_"), term.split("_"), strict=True)
    changed = [pair for pair in pairs if pair[0] != pair[1]]
    if any(old[0] != new[0] or is_english_word(old) or not is_likely_typo(old, new) for old, new in changed):
        return False
    return all(len(word) >= SHORTEST_CORRECTED and word.isalpha() for pair in changed for word in pair)


def is_likely_typo(word: str, meant: str) -> bool:
    """Return whether ``word`` is a likely misspelling of ``meant``, one edit away (cockapoo for cockatoo is not).

    Swapped, doubled or missing letters, a neighbouring key and confused vowels are likely. The end of a word is seldom
    misspelt: a different end usually is another word (the French pomme is not pommel).
    """
    changed = [i for i, (a, b) in enumerate(zip(word, meant, strict=False)) if a != b]
    if len(word) != len(meant):
        return bool(changed)
    if len(changed) == 2:
        return True
    a, b = word[changed[0]], meant[changed[0]]
    return {a, b} <= VOWELS or any(abs(row.find(a) - row.find(b)) == 1 for row in KEYBOARD if a in row and b in row)


def _mean_of_words(key: str, vocabulary: Vocabulary) -> Terms:
    if is_code(key):
        return ()
    found = (vocabulary.first(word_forms(word)) for word in key.split("_") if is_content_word(word))
    return tuple(dict.fromkeys(term for terms in found for term in terms))


SPELLING_CORRECTION = Step("edit distance 1", _spelling_correction, False, 0.4)
MEAN_OF_WORDS = Step("mean of words", _mean_of_words, False, 0.5)
STEPS = (
    Step("exact", _exact, True, 1.0),
    Step("without article", _without_article, True, 1.0),
    Step("last two words", _last_two_words, True, 0.8, drops_words=True),
    Step("lemma", _lemma, True, 0.9),
    Step("joined", _joined, True, 0.9),
    Step("before of", _before_of, False, 0.6, drops_words=True),
    Step("all words", _all_words, False, 0.7),
    Step("head noun", _head_noun, False, 0.6, drops_words=True),
    SPELLING_CORRECTION,
    MEAN_OF_WORDS,
)
LOW_CONFIDENCE = 0.4  # routes up to here are shown first
OWN_VECTOR = "own vector"  # the route of a name that no other route finds
SENTENCE = "sentence encoder"  # the last resort before a vector of its own
CONFIDENCE = {"alias": 1.0, OWN_VECTOR: 0.0, SENTENCE: 0.3} | {step.route: step.confidence for step in STEPS}
ROUTES = ("alias", *(step.route for step in STEPS))
WORD_DROPPING_ROUTES = frozenset(step.route for step in STEPS if step.drops_words)
