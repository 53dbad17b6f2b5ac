"""Lists of look-alikes: names of things, and which of them look alike (``look_alikes.txt`` has the rule).

The first list has two halves by topic. Rules of grouping were tuned on the one and measured on the other, but the other
was looked at several times. The second list (rare and compound names) and the third (everyday names) were written
afterwards, to measure on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Literal

from semco.groups.grouping import Rule, group_classes
from semco.labels.embeddings import LabelSource

Part = Literal["tuning half", "held-out half", "second list", "third list"]
Pair = frozenset[str]
FILES: dict[Part, str] = {
    "tuning half": "look_alikes.txt",
    "held-out half": "look_alikes.txt",
    "second list": "second_list.txt",
    "third list": "third_list.txt",
}
ACROSS = "across"  # the section of pairs between topics


@dataclass(frozen=True)
class LookAlikes:
    """Names by topic, the pairs that look alike, and the pairs about which persons would disagree."""

    topics: dict[str, tuple[str, ...]]
    alike: frozenset[Pair]
    open: frozenset[Pair]

    def names(self, part: Part) -> tuple[str, ...]:
        """Return the names of a half or of the whole list, sorted."""
        ordered = sorted(self.topics, key=lambda topic: sha256(topic.encode()).hexdigest())
        middle = len(ordered) // 2
        chosen = {"tuning half": ordered[:middle], "held-out half": ordered[middle:]}.get(part, ordered)
        return tuple(sorted(name for topic in chosen for name in self.topics[topic]))


@dataclass(frozen=True)
class Agreement:
    """How groups agree with the listed pairs of a part of a list, taken as one set of classes."""

    classes: int
    grouped: int  # pairs within a group, without those about which persons would disagree
    right: int  # of them, pairs that look alike
    alike: int  # pairs that look alike

    @property
    def precision(self) -> float:
        return self.right / self.grouped if self.grouped else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.alike


@cache
def look_alikes(part: Part) -> LookAlikes:
    """Read the list of a part."""
    topics: dict[str, dict[str, None]] = {}
    pairs: dict[str, set[Pair]] = {"=": set(), "?": set()}
    topic = ""
    for line in (Path(__file__).parent / FILES[part]).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            topic = line.strip("[]")
        elif line and not line.startswith("#"):
            kind, names = line[0], [name.strip() for name in line[1:].split(",")]
            topics.setdefault(topic, {}).update(dict.fromkeys(names))
            pairs.setdefault(kind, set()).update(map(frozenset, combinations(names, 2)))
    del topics[ACROSS]
    return LookAlikes({topic: tuple(names) for topic, names in topics.items()}, *map(frozenset, _disjoint(pairs)))


def _disjoint(pairs: dict[str, set[Pair]]) -> tuple[set[Pair], set[Pair]]:
    """Return the pairs that look alike and the open ones; a pair that is in both looks alike."""
    return pairs["="], pairs["?"] - pairs["="]


def agreement(source: LabelSource, part: Part, eps: float | None = None, rule: Rule | None = None) -> Agreement:
    """Return how the groups of a part's names agree with the listed pairs."""
    listed = look_alikes(part)
    names = listed.names(part)
    groups = group_classes(source.vectors(names), eps, rule)
    grouped = {frozenset(pair) for members in groups.members for pair in combinations(members, 2)} - listed.open
    alike = {pair for pair in listed.alike if pair <= set(names)}
    return Agreement(len(names), len(grouped), len(grouped & alike), len(alike))
