"""Entries of a listing: what a part stores, and how much memory a million of them take."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from semco.data.listing import FILES, Entry, Files, Part, as_entry
from semco.errors import UserError


def test_a_part_gives_back_what_was_added(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"pixels")
    other = Files()
    part = Part()
    part.add_files([str(tmp_path / "a.png"), "b.png"], 3, held_out=True)
    part.add(Entry("c.tar/c.png", other, 512, 7))
    assert [str(entry) for entry in part] == [str(tmp_path / "a.png"), "b.png", "c.tar/c.png"]
    assert part.labels.tolist() == [3, 3, -1]
    assert part.held_out.tolist() == [1, 1, 0]
    assert part[2] == Entry("c.tar/c.png", other, 512, 7)
    with part[0].open() as stream:
        assert stream.read() == b"pixels"
    assert part[0].file() == tmp_path / "a.png"
    assert part.stores == [FILES, other]


def test_an_entry_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is missing"):
        as_entry(tmp_path / "nothing.png").open()


def test_a_million_entries_take_less_than_300_mib() -> None:
    """Measured on a tenth of them; each has a path of its own, with 60 characters."""
    tracemalloc.start()
    part = Part()
    part.add_files(f"/photos/of/a/person/with/long/folder/names/{i:012d}.jpg" for i in range(100_000))
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(part) == 100_000
    assert 10 * used < 300 * 2**20
