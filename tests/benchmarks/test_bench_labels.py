"""The measurement of label vectors on files of a thousandth of the official sizes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from benchmarks.labels import time_full_build, time_large_store, time_reader
from semco.errors import UserError


def test_a_store_is_opened_and_searched(tmp_path: Path) -> None:
    opening, lookup = time_large_store(tmp_path, size=2000, names=20)
    assert (opening.what, lookup.what) == ("opening a store of 2,000 terms", "looking up 20 names in it")
    assert min(opening.best, lookup.best) > 0


def test_the_stages_of_a_build_add_up_to_its_time(tmp_path: Path) -> None:
    measured = time_full_build(tmp_path, scale=0.001)
    assert set(measured["bytes"]) == {"glove.txt", "word2vec.bin", "graph.csv"}
    assert measured["terms"] > 0
    assert measured["peak_gib"] > 0
    assert 0 < sum(measured["stages_s"].values()) <= measured["total_s"] + 1e-6


@pytest.mark.skipif(importlib.util.find_spec("gensim") is not None, reason="gensim is installed")
def test_the_error_without_gensim_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="semco\\[bench\\]"):
        time_reader(tmp_path, words=10)
