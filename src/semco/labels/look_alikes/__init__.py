"""The list of look-alikes: names of things, and which of them look alike (``look_alikes.txt`` has the rule).

The list has two halves by topic. Rules of grouping are tuned on the one and measured on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Literal

from semco.labels.embeddings import LabelSource
from semco.labels.groups import Rule, group_classes

Half = Literal["tuning", "held-out"]
Pair = frozenset[str]
ACROSS = "across"  # the section of pairs between topics


@dataclass(frozen=True)
class LookAlikes:
    """Names by topic, the pairs that look alike, and the pairs about which persons would disagree."""

    topics: dict[str, tuple[str, ...]]
    alike: frozenset[Pair]
    open: frozenset[Pair]

    def names(self, half: Half) -> tuple[str, ...]:
        """Return the names of one half, sorted."""
        ordered = sorted(self.topics, key=lambda topic: sha256(topic.encode()).hexdigest())
        middle = len(ordered) // 2
        chosen = ordered[:middle] if half == "tuning" else ordered[middle:]
        return tuple(sorted(name for topic in chosen for name in self.topics[topic]))


@dataclass(frozen=True)
class Agreement:
    """How groups agree with the listed pairs of one half, taken as one set of classes."""

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
def look_alikes() -> LookAlikes:
    """Read the list."""
    topics: dict[str, dict[str, None]] = {}
    pairs: dict[str, set[Pair]] = {"=": set(), "?": set()}
    topic = ""
    for line in (Path(__file__).parent / "look_alikes.txt").read_text(encoding="utf-8").splitlines():
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


def agreement(source: LabelSource, half: Half, eps: float | Literal["auto"] = "auto", rule: Rule = "auto") -> Agreement:
    """Return how the groups of one half's names agree with the listed pairs."""
    listed = look_alikes()
    names = listed.names(half)
    groups = group_classes(source.vectors(names), eps, rule)
    grouped = {frozenset(pair) for members in groups.members for pair in combinations(members, 2)} - listed.open
    alike = {pair for pair in listed.alike if pair <= set(names)}
    return Agreement(len(names), len(grouped), len(grouped & alike), len(alike))
