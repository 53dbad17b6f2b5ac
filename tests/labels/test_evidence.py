from __future__ import annotations

from math import log2
from pathlib import Path

import numpy as np
import pytest

from semco.errors import UserError
from semco.groups.grouping import group_classes
from semco.groups.look_alikes import Part, agreement, look_alikes
from semco.labels.dictionary import dictionary
from semco.labels.dictionary.relations import relations
from semco.labels.embeddings import LabelEmbeddings
from semco.labels.evidence import BOTH_IN_PART, DIRECT, IN_PART, LOOKS, SHARED, Evidence, densities, store_evidence
from semco.labels.kin import kin_table, reordered
from semco.labels.sources import store_source
from semco.labels.store import VectorStore

# trout and salmon are salmonids; salmon is also a colour; mallet is a hammer
TERMS = ["trout", "salmon", "salmonid", "colour", "mallet", "hammer"]
PAIRS = np.array([(0, 2), (1, 2), (1, 3), (4, 5), (0, 2)])
CHILDREN = np.array([0, 0, 2, 500, 0, 14])


def test_kin_by_hand() -> None:
    kin = kin_table(PAIRS, CHILDREN, 6)
    assert kin.of(1) == {1, 2, 3}
    assert kin.shared([0, 1, 4, None])[0].tolist() == pytest.approx([0, 1 / log2(4), 0, 0])
    assert kin.direct([4, 5, 0, None]).tolist()[0] == [False, True, False, False]
    assert kin.common(0, 1) == [2]
    assert kin.weight(3) == 0  # too general


def test_kin_of_fewer_terms_in_another_order() -> None:
    kin = reordered(kin_table(PAIRS, CHILDREN, 6), np.array([5, 4, 2, 1]))
    assert kin.of(1) == {0, 1}
    assert kin.of(3) == {2, 3}
    assert kin.children.tolist() == [14, 0, 2, 0]


def test_kin_is_stored_with_the_vectors(tmp_path: Path) -> None:
    VectorStore.write(tmp_path / "s", TERMS, np.eye(6), range(6), {}, kin=kin_table(PAIRS, CHILDREN, 6))
    store = VectorStore.open(tmp_path / "s")
    found = store_evidence(store, np.eye(6, dtype=np.float32)[:2], ["trout", "salmon"], [False, False])
    assert found is not None
    weight = relations(dictionary(), ["trout", "salmon"]).weight[0, 1]  # of the senses in which both are fish
    assert found.shared[0, 1] == pytest.approx(0.5 * weight)
    assert found.reasons == {(0, 1): "both salmonid"}


def test_too_many_classes_are_grouped_by_their_cosines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    VectorStore.write(tmp_path / "s", TERMS, np.eye(6), range(6), {}, kin=kin_table(PAIRS, CHILDREN, 6))
    monkeypatch.setattr("semco.labels.evidence.MOST_CLASSES", 2)
    embeddings = store_source(tmp_path / "s", {}, False).vectors(("trout", "salmon", "mallet"))
    assert embeddings.evidence is None
    assert group_classes(embeddings, rule="evidence").rule == "dbscan"


def test_density_leaves_the_term_itself_out() -> None:
    rows = np.array([[1, 0], [0.6, 0.8]], dtype=np.float32)
    assert densities(rows[:1], rows).tolist() == pytest.approx([(0.6 - 1) / 2])


def classes(total: np.ndarray) -> LabelEmbeddings:
    names = tuple("abcd"[: len(total)])
    nothing = np.zeros_like(total)
    evidence = Evidence(total, nothing, nothing, nothing, nothing, nothing, np.full_like(total, np.nan))
    return LabelEmbeddings(names, np.eye(len(names), dtype=np.float32), names, names, "test", 0.2, (), evidence)


def test_evidence_does_not_chain() -> None:
    """a - b and b - c are close, a - c are not: DBSCAN would chain all three."""
    total = np.array([[2, 1.9, -1, 0], [1.9, 2, 1.5, 0], [-1, 1.5, 2, 0], [0, 0, 0, 2]], dtype=np.float64)
    found = group_classes(classes(total))
    assert found.rule == "evidence"
    assert found.members == (("a", "b"), ("c",), ("d",))
    assert group_classes(classes(total), rule="dbscan").count == 4  # orthogonal vectors
    assert group_classes(classes(total), eps=0.1).rule == "dbscan"


def test_a_person_corrects_groups() -> None:
    total = 2 * (np.eye(4) + np.eye(4, k=1) + np.eye(4, k=-1))
    found = group_classes(classes(total), together=[("a", "d")], apart=[("c", "d")])
    assert any({"a", "d"} <= set(members) for members in group_classes(classes(total), together=[("a", "d")]).members)
    assert not any({"c", "d"} <= set(members) for members in found.members)
    with pytest.raises(UserError, match="'x' is no class name"):
        group_classes(classes(total), apart=[("a", "x")])


def test_the_list_of_look_alikes() -> None:
    listed = look_alikes("tuning half")
    tuning, held_out = listed.names("tuning half"), listed.names("held-out half")
    assert len(tuning) + len(held_out) == len({*tuning, *held_out}) == 1033
    assert frozenset(("trout", "salmon")) in listed.alike
    assert not listed.alike & listed.open
    found = agreement(store_source(None), "held-out half")
    assert found.precision >= 0.8
    assert found.recall >= 0.5


@pytest.mark.parametrize(
    ("part", "names", "pair", "precision", "recall"),
    [
        ("second list", 854, ("capybara", "nutria"), 0.36, 0.26),
        ("third list", 469, ("hen", "rooster"), 0.74, 0.56),
    ],
)
def test_the_lists_to_measure_on(
    part: Part, names: int, pair: tuple[str, str], precision: float, recall: float
) -> None:
    """The bounds are those of docs/labels.md."""
    listed = look_alikes(part)
    assert len(listed.names(part)) == names
    assert frozenset(pair) in listed.alike
    assert not listed.alike & listed.open
    found = agreement(store_source(None), part)
    assert found.precision >= precision
    assert found.recall >= recall


def test_the_evidence_by_hand() -> None:
    one = np.ones((1, 1))
    parts = 0.2 * one, 0.4 * one, 0.5 * one, 0.8 * one, 0.6 * one, 0.5 * one
    alone = 0.2 + 0.5 * (0.4 + SHARED * 0.5 + DIRECT * 0.8 + LOOKS * 0.6)
    assert Evidence(*parts, np.nan * one).total.item() == pytest.approx(alone)
    assert Evidence(*parts, 0.3 * one).total.item() == pytest.approx(0.7 * alone + 1.6 * 0.3 - 0.35)


def test_names_that_are_known_in_part_count_less() -> None:
    """Neither carton is in the dictionary, "bucket hat" is looked up as hat, and an oak tree is an oak."""
    names = ("milk carton", "egg carton", "bucket hat", "bowler hat", "oak tree", "heermann gull", "slaty backed gull")
    evidence = store_source(None).vectors(names).evidence
    assert evidence is not None
    both, one = BOTH_IN_PART, IN_PART
    assert evidence.knowledge[0].tolist() == [both, both, both, one, one, both, both]
    assert evidence.knowledge[3].tolist() == [one, one, one, 1, 1, one, one]
    assert evidence.knowledge[5, 6] == one  # two gulls look alike


def test_senses_decide_what_the_graph_counts() -> None:
    """The graph has "hot dog" for a dog; a dog beside animals is none, and a hot dog is close to a sausage."""
    names = ("dog", "cat", "horse", "hot dog", "pizza", "hamburger")
    evidence = store_source(None).vectors(names).evidence
    assert evidence is not None
    assert evidence.direct[0, 3] < 0.5
    assert not any({"dog", "hot dog"} <= set(one) for one in group_classes(store_source(None).vectors(names)).members)
