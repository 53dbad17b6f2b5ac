"""The official files of label vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from semco.errors import UserError
from semco.labels.build.fetch import SOURCES, fetch


def test_the_error_for_an_unknown_file_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"glove, glove-6b, word2vec"):
        fetch("glov", tmp_path)


def test_every_source_is_an_official_address_over_https() -> None:
    assert {"glove", "word2vec", "conceptnet"} <= set(SOURCES)
    assert all(source.url.startswith("https://") and source.licence for source in SOURCES.values())
