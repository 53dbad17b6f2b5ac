"""From a class name to a term of the vocabulary: the fall-out strategy of the paper's supplement (section B).

The steps stand in one table, `STEPS`, and are tried in its order. None guesses a word at random, and the one
that answered is recorded with the answer. A name may hold alternatives ("T-shirt/top", "tench, Tinca tinca"):
each goes through the steps that keep its meaning before any goes through those that drop words.

Keys are names as the vocabulary spells them: lower case, words joined by ``_``.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from semco.errors import UserError
from semco.labels.store import VectorStore
from semco.labels.terms import ARTICLES, drop_articles, normalise

PREPOSITIONS = ("of", "in", "on", "at", "with", "without", "for", "from", "by", "to", "under", "over")
STOP_WORDS = frozenset((*ARTICLES, *PREPOSITIONS, "and", "or", "not", "other"))
SHORTEST_HALF, COMMON = 4, 20_000  # letters of a part of a compound, and rank up to which a term may be one
SHORTEST_CORRECTED = 5  # letters: in shorter words one edit makes another word ("cat", "car")
APOSTROPHES = str.maketrans("‘’ʼ`´", "'''''")
LONGEST_SPLIT = 40  # letters: no term joined from two words is longer
MISSING_SHOWN = 5  # unknown names that one error explains in full

Terms = tuple[str, ...]  # what a step found: one term, several whose mean is meant, or nothing


@dataclass(frozen=True)
class Match:
    """A class name, the terms that stand for it (their mean, if several) and the step that found them."""

    name: str
    terms: Terms
    route: str
    part: str  # the alternative that was looked up: all of the name, or "T-shirt" of "T-shirt/top"
    turned: bool = False  # another class has the same terms: the vectors are turned apart

    @property
    def term(self) -> str:
        return "+".join(self.terms)

    @property
    def how(self) -> str:
        """The route in words, such as "exact" or "exact, of 'T-shirt'"."""
        of_part = "" if self.part == self.name else f", of {_short(self.part)!r}"
        return f"{self.route}{of_part}{', shared' if self.turned else ''}"


class Vocabulary:
    """A store's terms, with what the spelling step needs of them made once and only when it is asked for."""

    def __init__(self, store: VectorStore) -> None:
        self.store = store

    def first(self, candidates: Iterable[str]) -> Terms:
        """The first candidate that is a term."""
        return next(((key,) for key in candidates if key and key in self.store), ())

    def is_common(self, word: str) -> bool:
        """Whether a term is among the most frequent."""
        place = self.store.index(word)
        return place is not None and self.store.rank(place) < COMMON

    @cached_property
    def _by_length(self) -> Mapping[int, tuple[list[int], list[str]]]:
        """Places and terms of each length: an edit changes the length by one at most."""
        buckets: dict[int, tuple[list[int], list[str]]] = defaultdict(lambda: ([], []))
        for i, term in enumerate(self.store.terms()):
            places, terms = buckets[len(term)]
            places.append(i)
            terms.append(term)
        return dict(buckets)

    def one_edit_away(self, key: str) -> list[str]:
        """Terms one insertion, deletion, replacement or swap away, the most frequent first."""
        from rapidfuzz.distance import OSA
        from rapidfuzz.process import extract

        found = []
        for length in (len(key) - 1, len(key), len(key) + 1):
            places, terms = self._by_length.get(length, ([], []))
            hits = extract(key, terms, scorer=OSA.distance, score_cutoff=1, limit=None)
            found += [(self.store.rank(places[i]), term) for term, _, i in hits]
        return [term for _, term in sorted(found)]

    def similar_spellings(self, key: str, n: int = 3) -> list[str]:
        """The terms spelt most like ``key``, for an error message."""
        from rapidfuzz.distance import OSA
        from rapidfuzz.process import extract

        cut = key[:LONGEST_SPLIT]  # of a name of a thousand letters the beginning is hint enough
        found = extract(cut, self.store.terms(), scorer=OSA.normalized_similarity, score_cutoff=0.5, limit=8 * n)
        ordered = sorted(found, key=lambda hit: (-round(hit[1], 6), self.store.rank(hit[2])))
        return [term for term, _, _ in ordered[:n]]


def _exact(key: str, known: Vocabulary) -> Terms:
    return known.first([key])


def _without_article(key: str, known: Vocabulary) -> Terms:
    return known.first([_bare(key)])


def _last_two_words(key: str, known: Vocabulary) -> Terms:
    return known.first(_last_two(_bare(key)))


def _lemma(key: str, known: Vocabulary) -> Terms:
    bare = _bare(key)
    return known.first(form for whole in (bare, *_last_two(bare)) for form in _lemmas(whole))


def _joined(key: str, known: Vocabulary) -> Terms:
    bare = _bare(key)
    return known.first(form for whole in (bare, *_lemmas(bare)) for form in _joints(whole))


def _before_of(key: str, known: Vocabulary) -> Terms:
    words = _bare(key).split("_")
    if "of" not in words[1:]:
        return ()
    phrase = "_".join(words[: words.index("of", 1)])
    shorter = (phrase, *_last_two(phrase), phrase.rpartition("_")[2])
    return known.first(form for part in shorter for form in _forms(part) if _is_content(part))


def _head_noun(key: str, known: Vocabulary) -> Terms:
    heads = _head(key) or _end_of_compound(_bare(key), known)
    return known.first(form for head in heads for form in _forms(head))


def _end_of_compound(word: str, known: Vocabulary) -> tuple[str, ...]:
    """``waterslide`` is a slide: the second of two common words that make up a single one."""
    forms = (word, *_lemmas(word))
    halves = ((form[:i], form[i:]) for form in forms for i in range(SHORTEST_HALF, len(form) - SHORTEST_HALF + 1))
    return next(((end,) for start, end in halves if known.is_common(start) and known.is_common(end)), ())


def _spelling(key: str, known: Vocabulary) -> Terms:
    bare = _bare(key)
    others = [word for word in key.split("_") if word not in _head(key) and _is_content(word)]
    heads = _head(key) if all(known.first(_forms(word)) for word in others) else ()  # a foreign name is no misspelling
    for word in dict.fromkeys((bare, *_lemmas(bare), *heads)):
        if len(word.replace("_", "")) >= SHORTEST_CORRECTED:
            found = known.first(term for term in known.one_edit_away(word) if _is_correction(word, term))
            if found:
                return found
    return ()


def _mean_of_words(key: str, known: Vocabulary) -> Terms:
    found = (known.first(_forms(word)) for word in key.split("_") if _is_content(word))
    return tuple(dict.fromkeys(term for terms in found for term in terms))


@dataclass(frozen=True)
class Step:
    route: str
    find: Callable[[str, Vocabulary], Terms]
    keeps_meaning: bool  # such steps come first for every alternative of a name
    drops_words: bool = False  # then classes that meet in one term can be told apart by their other words


STEPS = (
    Step("exact", _exact, True),
    Step("without article", _without_article, True),
    Step("last two words", _last_two_words, True, drops_words=True),
    Step("lemma", _lemma, True),
    Step("joined", _joined, True),
    Step("before of", _before_of, False, drops_words=True),
    Step("head noun", _head_noun, False, drops_words=True),
    Step("edit distance 1", _spelling, False),
    Step("mean of words", _mean_of_words, False),
)
ROUTES = ("alias", *(step.route for step in STEPS))
_DROPS_WORDS = frozenset(step.route for step in STEPS if step.drops_words)
_MEAN = STEPS[-1]
_SPELLING = "edit distance 1"


class Lookup:
    """Looks class names up in a store; ``aliases`` (name -> term) go before everything else."""

    def __init__(self, store: VectorStore, aliases: Mapping[str, str] | None = None) -> None:
        self.known = Vocabulary(store)
        self.aliases = dict(aliases or {})
        self._alias_keys = {spell(name): name for name in self.aliases}

    def find(self, name: str) -> Match | None:
        """The match of one name, or None."""
        key = spell(name)
        alias = name if name in self.aliases else self._alias_keys.get(key)
        if alias is not None:
            return Match(name, self._alias_terms(alias), "alias", name)
        whole = self.known.first([key]) or self.known.first(spellings(name))
        if whole:
            return Match(name, whole, "exact", name)
        parts = alternatives(name)
        for keeps_meaning in (True, False):
            for part in parts:
                match = self._through(STEPS, name, part, keeps_meaning)
                if match is not None:
                    return match
        return None

    def find_all(self, names: Sequence[str]) -> tuple[list[Match], list[str]]:
        """The matches of all names, kept apart where two meet in one term, and notes on that for people."""
        check_names(names)
        matches = [self.find(name) for name in names]
        missing = [name for name, match in zip(names, matches, strict=True) if match is None]
        if missing:
            raise UserError(self.not_found(missing))
        return self._kept_apart([match for match in matches if match is not None])

    def unused_aliases(self, names: Sequence[str]) -> list[str]:
        """Aliases for names that are not among the classes: most likely misspelt."""
        keys = {spell(name) for name in names}
        return [name for name in self.aliases if name not in names and spell(name) not in keys]

    def _through(self, steps: Iterable[Step], name: str, part: str, keeps_meaning: bool) -> Match | None:
        keys = spellings(part)
        for step in steps:
            if step.keeps_meaning is keeps_meaning:
                for key in keys:
                    terms = step.find(key, self.known)
                    if terms:
                        return Match(name, terms, step.route, part)
        return None

    def _alias_terms(self, name: str) -> Terms:
        target = self.aliases[name]
        found = self.known.first([normalise(target), *spellings(target)])
        if not found:
            raise UserError(f"the alias {name}={target}: {self._unknown(target)}; choose a term it knows.")
        return found

    def _kept_apart(self, matches: list[Match]) -> tuple[list[Match], list[str]]:
        """Classes must not share a vector: words that were dropped tell them apart, else a small turn."""
        for rival in _rivals(matches):
            words = self._words(matches[rival])
            if words is not None:
                matches[rival] = words
        notes = [_guess(match) for match in matches if match.route == _SPELLING]
        for rival in _rivals(matches):
            match = matches[rival] = replace(matches[rival], turned=True)
            others = [m.name for i, m in enumerate(matches) if m.terms == match.terms and i != rival]
            listed = " and ".join(repr(_short(other)) for other in sorted(others))
            notes.append(
                f"class {_short(match.name)!r} means {match.term!r} like {listed}: the vectors were turned"
                f" a little apart; if that is wrong, {_by_hand(match.name)}."
            )
        return matches, sorted(notes)

    def _words(self, match: Match) -> Match | None:
        """The same name through all of its words, if the route had dropped some."""
        if match.route not in _DROPS_WORDS and match.part == match.name:
            return None
        found = max((_MEAN.find(key, self.known) for key in spellings(match.name)), key=len)
        return Match(match.name, found, _MEAN.route, match.name) if len(found) > 1 else None

    def not_found(self, missing: Sequence[str]) -> str:
        """What to tell about names that have no match."""
        explained = "; ".join(f"class name {self._unknown(name)}" for name in missing[:MISSING_SHOWN])
        more = len(missing) - MISSING_SHOWN
        rest = f"; and {more} more: {', '.join(map(_short, missing[MISSING_SHOWN:][:20]))}" if more > 0 else ""
        how = _by_hand(missing[0])
        return f"{explained}{rest}. {how[0].upper()}{how[1:]}."

    def _unknown(self, name: str) -> str:
        key = spell(name)
        close = self.known.similar_spellings(key) if key else []
        hint = f"nearest spellings: {', '.join(close)}" if close else "nothing is spelt like it"
        return f"{_short(name)!r} is not in the vocabulary ({hint})"


def check_names(names: Sequence[str]) -> None:
    """Class names must be there and differ from each other."""
    if not names:
        raise UserError("there are no class names; give at least one.")
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise UserError(f"class name number {number} is empty; every class needs a name.")
    twice = [name for i, name in enumerate(names) if name in names[:i]] if len(set(names)) < len(names) else []
    if twice:
        raise UserError(f"class name {_short(twice[0])!r} is given twice; names must differ.")


def spell(name: str) -> str:
    """A name as a key: letters, digits and apostrophes in lower case, everything else a ``_`` between words.

    Articles inside a name go, as in every term; a leading one stays, so that its loss is a step of its own.
    """
    text = unicodedata.normalize("NFKC", name).lower().translate(APOSTROPHES)
    words = [word for word in re.split(r"[^\w']+|_+", text) if word.strip("'")]
    return "_".join(words[:1] + drop_articles(words[1:])).strip("'")


def spellings(name: str) -> tuple[str, ...]:
    """The keys a name may have: as written, as terms are normalised, without what vocabularies leave out."""
    plain = spell(name)
    split = spell(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))  # AnnualCrop
    keys = [plain, split]
    keys += [re.sub(r"^(n\d{8}|\d+)_+(?=\D)", "", key) for key in keys]  # 001.Laysan_Albatross, n02085620-pug
    keys += [re.sub(r"'+", "", key) for key in keys] + [re.sub(r"'s?(?=_|$)", "", key) for key in keys]
    keys += [_without_accents(key) for key in keys]
    if plain == _bare(plain):  # else the article's loss would pass for an exact match
        keys.insert(1, normalise(name))
    return tuple(dict.fromkeys(key for key in (re.sub(r"_+", "_", key).strip("_") for key in keys) if key))


def alternatives(name: str) -> tuple[str, ...]:
    """What a name offers: of "T-shirt/top" a T-shirt or a top, of "crane (bird)" a crane; most are one."""
    pieces = re.split(r"[/,;|()\[\]]", name)
    return tuple(dict.fromkeys(piece.strip() for piece in pieces if spell(piece))) or (name,)


def _without_accents(key: str) -> str:
    if key.isascii():
        return key
    return "".join(c for c in unicodedata.normalize("NFKD", key) if not unicodedata.combining(c))


def _bare(key: str) -> str:
    first, _, rest = key.partition("_")
    return rest if rest and first in ARTICLES else key


def _last_two(key: str) -> tuple[str, ...]:
    words = key.split("_")
    usable = len(words) > 2 and all(map(_is_content, words[-2:]))
    return ("_".join(words[-2:]),) if usable else ()


def _head(key: str) -> tuple[str, ...]:
    """The word that says what a thing is: the last before a preposition ("bird in flight"), numbers apart."""
    words = _bare(key).split("_")
    cut = next((i for i, word in enumerate(words) if i > 0 and word in PREPOSITIONS), len(words))
    content = [word for word in words[:cut] if _is_content(word)]
    return (content[-1],) if len(words) > 1 and content and content[-1] == words[:cut][-1] else ()


def _is_content(word: str) -> bool:
    return len(word) > 1 and word not in STOP_WORDS and any(c.isalpha() for c in word)


def _forms(key: str) -> Iterator[str]:
    """A word or phrase as it is, in the singular, and with its joints moved."""
    singular = (key, *_lemmas(key))
    yield from singular
    for form in singular:
        yield from _joints(form)


def _lemmas(key: str) -> tuple[str, ...]:
    """A phrase with its last word as the dictionary has it, then with the plain plural ending taken off."""
    from simplemma import lemmatize

    phrase, joint, word = key.rpartition("_")
    forms = [lemmatize(word, lang="en").lower(), *_without_plural_ending(word)]
    return tuple(phrase + joint + form for form in dict.fromkeys(forms) if form not in ("", word))


def _without_plural_ending(word: str) -> Iterator[str]:
    """For words that no dictionary lists ("rollerskates")."""
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies"):
            yield word[:-3] + "y"
        if word.endswith("es"):
            yield word[:-2]
        yield word[:-1]


def _joints(key: str) -> Iterator[str]:
    """Words joined (``sea_lion``: ``sealion``); a single word split (``rollerskate``: ``roller_skate``)."""
    words = key.split("_")
    if len(words) > 1:
        yield "".join(words)
    if len(words) > 2:
        for i in range(len(words) - 1):
            yield "_".join([*words[:i], words[i] + words[i + 1], *words[i + 2 :]])
    elif len(words) == 1 and len(key) <= LONGEST_SPLIT:
        for i in range(len(key) - 2, 0, -1):
            yield f"{key[:i]}_{key[i:]}"


def _is_correction(key: str, term: str) -> bool:
    """Whether the edit fell into a word that is long enough, before and after, and not into a number."""
    pairs = list(zip(key.split("_"), term.split("_"), strict=False))
    if key.count("_") != term.count("_"):
        return False
    changed = [word for pair in pairs if pair[0] != pair[1] for word in pair]
    return all(len(word) >= SHORTEST_CORRECTED and word.isalpha() for word in changed)


def _guess(match: Match) -> str:
    name = _short(match.name)
    return f"class {name!r} was read as {match.term!r}; if that is wrong, {_by_hand(match.name)}."


def _by_hand(name: str) -> str:
    """How to say what a class name means."""
    short = _short(name)
    train = f"--set 'labels.aliases={{{short}: TERM}}' of 'semco train'"
    return f"map it by hand with --alias '{short}=TERM' of 'semco labels', {train}"


def _rivals(matches: Sequence[Match]) -> list[int]:
    """Places of the matches that share their terms with a surer one, or with an equally sure one."""
    meeting = defaultdict(list)
    for i, match in enumerate(matches):
        meeting[match.terms].append(i)
    rivals = []
    for places in meeting.values():
        sureness = [(ROUTES.index(matches[i].route), matches[i].part != matches[i].name) for i in places]
        keeper = min(sureness) if sureness.count(min(sureness)) == 1 else None
        rivals += [i for i, sure in zip(places, sureness, strict=True) if len(places) > 1 and sure != keeper]
    return rivals


def _short(name: str, most: int = 60) -> str:
    return name if len(name) <= most else f"{name[:most]}…"
