"""Look class names up in a vocabulary: class name -> terms and the route that found them.

A name may contain alternatives ("T-shirt/top", "tench, Tinca tinca"). Each alternative is tried with the routes that
keep its meaning before any is tried with the routes that drop or correct words (`routes.STEPS`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from semco.data.names import readable_class
from semco.errors import UserError
from semco.labels.matching.notes import (
    alias_advice,
    correction_note,
    own_vector_notes,
    placed_notes,
    shared_term_note,
)
from semco.labels.matching.routes import (
    CONFIDENCE,
    MEAN_OF_WORDS,
    OWN_VECTOR,
    ROUTES,
    SENTENCE,
    SPELLING_CORRECTION,
    STEPS,
    WORD_DROPPING_ROUTES,
    Terms,
    Vocabulary,
)
from semco.labels.matching.spelling import alternatives, is_negated, normalise, shorten, spell, spellings
from semco.labels.store import VectorStore

WHOLE_NAME_ROUTES = ("exact", "without article")
EXPLAINED = 5  # unknown names for which an error lists similar spellings


@dataclass(frozen=True)
class Match:
    """A class name, its terms (if several, their mean is used) and the route that found them."""

    name: str
    terms: Terms
    route: str
    part: str  # the alternative that was looked up: the whole name, or "T-shirt" of "T-shirt/top"
    is_shared: bool = False  # another class has the same terms, so this vector is rotated away from theirs

    @property
    def term(self) -> str:
        """The terms as text, joined by "+"."""
        return "+".join(self.terms)

    @property
    def confidence(self) -> float:
        """How likely the term means what the name means, from 0 to 1."""
        return CONFIDENCE[self.route]

    @property
    def how(self) -> str:
        """The route with its details, such as "exact" or "exact, of 'T-shirt'"."""
        of_part = "" if self.part == self.name else f", of {shorten(self.part)!r}"
        return f"{self.route}{of_part}{', shared' if self.is_shared else ''}"


class Lookup:
    """Looks class names up in a store; ``aliases`` (name -> term) take precedence over all routes."""

    def __init__(self, store: VectorStore, aliases: Mapping[str, str] | None = None, is_strict: bool = False) -> None:
        self.vocabulary, self._is_strict = Vocabulary(store), is_strict
        self.aliases = dict(aliases or {})
        self._alias_keys = {spell(name): name for name in self.aliases}

    def find(self, name: str) -> Match | None:
        """Return the match of one name, or None if no route finds a term."""
        key = spell(name)
        alias = name if name in self.aliases else self._alias_keys.get(key)
        if alias is not None:
            return Match(name, self._alias_terms(alias), "alias", name)
        if (words := readable_class(name)) != name:  # a WordNet id
            match = self.find(words)
            return None if match is None else replace(match, name=name)
        terms = self.vocabulary.first([key]) or self.vocabulary.first(spellings(name))
        if terms:
            return Match(name, terms, "exact", name)
        parts = alternatives(name)
        for keeps_meaning in (True, False):
            for part in parts:
                match = self._try_steps(name, part, keeps_meaning)
                if match is not None:
                    return match
        return None

    def find_all(
        self, names: Sequence[str], place: Callable[[Sequence[str]], Collection[str]] | None = None
    ) -> tuple[list[Match], list[str]]:
        """Return the matches of all names, and notes about guesses, unknown names and classes that share a term.

        An unknown name has no terms; if strict, it is a `UserError`. ``place`` returns those of the unknown names that
        the sentence encoder knows. Each of the others gets a vector of its own.
        """
        check_names(names)
        matches = [self.find(name) or Match(name, (), OWN_VECTOR, name) for name in names]
        missing = [match.name for match in matches if not match.terms]
        if missing and self._is_strict:
            raise self.not_found(missing)
        known = set(place(missing)) if place is not None and missing else set()
        matches = [replace(match, route=SENTENCE) if match.name in known else match for match in matches]
        matches, notes = self._separate_duplicates(matches)
        placed, own = [name for name in missing if name in known], [name for name in missing if name not in known]
        return matches, [*notes, *placed_notes(placed), *own_vector_notes(own, len(names))]

    def unused_aliases(self, names: Sequence[str]) -> list[str]:
        """Return the aliases whose names are not among the classes; most likely they are misspelt."""
        keys = {spell(name) for name in names}
        return [name for name in self.aliases if name not in names and spell(name) not in keys]

    def not_found(self, missing: Sequence[str]) -> UserError:
        """Return the error for names that have no match."""
        explained = "; ".join(f"class name {self._describe_unknown(name)}" for name in missing[:EXPLAINED])
        more = len(missing) - EXPLAINED
        rest = f"; and {more} more: {', '.join(map(shorten, missing[EXPLAINED:][:20]))}" if more > 0 else ""
        advice = alias_advice(missing[0])
        return UserError(f"{explained}{rest}. {advice[0].upper()}{advice[1:]}.")

    def _try_steps(self, name: str, part: str, keeps_meaning: bool) -> Match | None:
        keys = spellings(part)
        is_denied = any(map(is_negated, keys))  # a term of fewer words would be what the name denies
        for step in STEPS:
            if step.keeps_meaning is keeps_meaning and not (is_denied and step.route not in WHOLE_NAME_ROUTES):
                for key in keys:
                    terms = step.find(key, self.vocabulary)
                    if terms:
                        return Match(name, terms, step.route, part)
        return None

    def _alias_terms(self, name: str) -> Terms:
        target = self.aliases[name]
        found = self.vocabulary.first([normalise(target), *spellings(target)])
        if not found:
            raise UserError(f"the alias {name}={target}: {self._describe_unknown(target)}; choose a term that is.")
        return found

    def _separate_duplicates(self, matches: list[Match]) -> tuple[list[Match], list[str]]:
        """Give classes that share terms different vectors: by the words a route dropped, otherwise by a rotation."""
        for i in _duplicates(matches):
            match = self._match_all_words(matches[i])
            if match is not None:
                matches[i] = match
        notes = [
            correction_note(match.name, match.term) for match in matches if match.route == SPELLING_CORRECTION.route
        ]
        for i in _duplicates(matches):
            match = matches[i] = replace(matches[i], is_shared=True)
            others = [other.name for j, other in enumerate(matches) if other.terms == match.terms and j != i]
            notes.append(shared_term_note(match.name, match.term, others))
        return matches, sorted(notes)

    def _match_all_words(self, match: Match) -> Match | None:
        """Return a match that uses all words of the name, or None if the route dropped none."""
        if match.route not in WORD_DROPPING_ROUTES and match.part == match.name:
            return None
        terms = max((MEAN_OF_WORDS.find(key, self.vocabulary) for key in spellings(match.name)), key=len)
        return Match(match.name, terms, MEAN_OF_WORDS.route, match.name) if len(terms) > 1 else None

    def _describe_unknown(self, name: str) -> str:
        key = spell(name)
        similar = self.vocabulary.similar_spellings(key) if key else []
        hint = f"similar terms: {', '.join(similar)}" if similar else "no term has a similar spelling"
        return f"{shorten(name)!r} is not in the vocabulary ({hint})"


def check_names(names: Sequence[str]) -> None:
    """Raise a `UserError` if there are no class names, or an empty or repeated one."""
    if not names:
        raise UserError("there are no class names; give at least one.")
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise UserError(f"class name number {number} is empty; every class needs a name.")
    repeated = [name for i, name in enumerate(names) if name in names[:i]] if len(set(names)) < len(names) else []
    if repeated:
        raise UserError(f"class name {shorten(repeated[0])!r} is given twice; class names must differ.")


def _duplicates(matches: Sequence[Match]) -> list[int]:
    """Return the indices of matches that share their terms with another match, except the most reliable one of each.

    If two matches are equally reliable, both are returned, so that the result does not depend on the order of names.
    """
    by_terms = defaultdict(list)
    for i, match in enumerate(matches):
        if match.terms:
            by_terms[match.terms].append(i)
    duplicates = []
    for indices in by_terms.values():
        ranks = [(ROUTES.index(matches[i].route), matches[i].part != matches[i].name) for i in indices]
        best = min(ranks) if ranks.count(min(ranks)) == 1 else None
        duplicates += [i for i, rank in zip(indices, ranks, strict=True) if len(indices) > 1 and rank != best]
    return duplicates
