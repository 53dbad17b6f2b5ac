from __future__ import annotations

import numpy as np

from semco.labels.build.readers.conceptnet import Edges
from semco.labels.build.readers.vectors import VectorSet
from semco.labels.build.vocabulary import make_vocabulary


def test_terms_of_more_sources_come_first_then_the_more_frequent() -> None:
    none = np.zeros((0, 2), np.float32)
    first, second = VectorSet(["rare_in_all", "both", "one"], none), VectorSet(["x", "both", "rare_in_all"], none)
    edges = Edges(
        ["rare_in_all", "leaf", "hub"],
        np.array([0, 1], np.int32),
        np.array([2, 2], np.int32),
        np.zeros(2, np.int8),
        np.ones(2, np.float32),
        ("IsA",),
    )
    found = make_vocabulary([first, second], edges, None)
    assert found.terms == ["rare_in_all", "both", "hub", "x", "leaf", "one"]
    assert make_vocabulary([first, second], edges, 2).terms == ["rare_in_all", "both"]
    assert found.positions(["both", "unknown"]).tolist() == [1, -1]
