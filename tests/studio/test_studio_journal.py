"""The journal of labels: nothing that was acknowledged is lost, whatever happens to the process or the disk."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from semco.config import DataConfig
from semco.data.sources import list_source
from semco.data.sources.label_file import csv_text
from semco.errors import UserError
from semco.studio.journal import SNAPSHOT_EVERY, Conflict, Entry, Journal
from semco.studio.journal.entry import CLASSES, sealed
from semco.studio.label_file import fits_csv, label_rows, write_label_file

TABLE = {"classes": [[1, "cat", ""], [2, "dog", ""]], "together": [], "apart": [], "next_number": 3}


def reopened(folder: Path) -> Journal:
    journal = Journal(folder)
    journal.close()
    return journal


def test_labels_are_there_after_opening_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.set_classes(TABLE)
    journal.label({"a.jpg": 1, "b.jpg": 2})
    journal.label({"a.jpg": 2})
    journal.label({"b.jpg": None})
    assert (journal.labels(), journal.seq) == ({"a.jpg": 2}, 4)
    journal.close()
    again = reopened(tmp_path)
    assert (again.labels(), again.classes(), again.seq, again.problems) == ({"a.jpg": 2}, TABLE, 4, [])


def test_undo_takes_back_one_entry_and_keeps_later_ones(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.label({"a": 1, "b": 1}, tab="first")
    journal.label({"b": 2}, tab="second")
    journal.undo("first")  # not that of the other tab
    assert journal.labels() == {"b": 2}
    with pytest.raises(UserError, match="nothing to undo"):
        journal.undo("first")
    journal.redo(1, "first")
    assert journal.labels() == {"a": 1, "b": 2}
    journal.undo("second")
    assert journal.labels() == {"a": 1, "b": 1}
    assert [(entry.seq, undone) for entry, undone in journal.history(10)] == [(2, True), (1, False)]
    assert journal.changes(since=4) == {"b": 1}
    journal.close()
    assert reopened(tmp_path).labels() == {"a": 1, "b": 1}


def test_classes_can_be_undone(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.set_classes(TABLE)
    journal.set_classes({**TABLE, "classes": [[1, "cat", ""]]})
    journal.undo()
    assert journal.classes() == TABLE
    journal.close()


def test_a_tab_does_not_overwrite_what_it_has_not_seen(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.label({"a": 1, "b": 1}, tab="first", seen=0)
    with pytest.raises(Conflict) as conflict:
        journal.label({"b": 2, "c": 2}, tab="second", seen=0)
    assert conflict.value.photos == ("b",)
    assert journal.labels() == {"a": 1, "b": 1}
    journal.label({"b": 2, "c": 2}, tab="second", seen=1)
    assert journal.labels() == {"a": 1, "b": 2, "c": 2}
    journal.close()


@pytest.mark.parametrize("damage", [b"not json\n", b'{"seq": 2, "crc": "00000000"}\n', b"\xff\xfe\n", b"[1]\n"])
def test_an_unreadable_line_is_skipped_and_reported(tmp_path: Path, damage: bytes) -> None:
    journal = Journal(tmp_path)
    journal.label({"a": 1})
    journal.label({"b": 2})
    journal.label({"c": 1})
    journal.close()
    (tmp_path / "snapshot.json").unlink()
    lines = journal.file.read_bytes().splitlines(keepends=True)
    journal.file.write_bytes(lines[0] + damage + lines[2])
    again = reopened(tmp_path)
    assert again.labels() == {"a": 1, "c": 1}
    assert again.problems == [f"line 2 of {journal.file} cannot be read and is skipped."]


def test_the_snapshot_replaces_damaged_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.set_classes(TABLE)
    journal.label({"a": 1, "b": 2})
    journal.close()  # writes a snapshot of two entries
    later = Journal(tmp_path)
    later.label({"c": 1})
    later._stream.close()  # a kill writes none
    lines = journal.file.read_bytes().splitlines(keepends=True)
    journal.file.write_bytes(lines[0] + b"?" + lines[1][1:] + lines[2])
    again = reopened(tmp_path)
    assert (again.labels(), again.classes()) == ({"a": 1, "b": 2, "c": 1}, TABLE)
    assert len(again.problems) == 2


def damage_line(journal: Journal, number: int) -> None:
    lines = journal.file.read_bytes().splitlines(keepends=True)
    lines[number - 1] = b"?" + lines[number - 1][1:]
    journal.file.write_bytes(b"".join(lines))


def test_a_damaged_line_brings_nothing_back_and_undo_stays_what_it_was(tmp_path: Path) -> None:
    """The snapshot has the entries themselves: it is no entry that can be undone, and knows what is undone."""
    journal = Journal(tmp_path)
    journal.set_classes(TABLE, "first")
    for number in range(5):
        journal.label({f"{number}": 1}, "first")
    journal.undo("first")
    journal.close()  # writes a snapshot
    journal = Journal(tmp_path)
    journal.undo("first")
    journal.redo(6, "first")
    journal._stream.close()  # a kill writes none
    damage_line(journal, 3)
    again = Journal(tmp_path)
    assert again.labels() == {"0": 1, "1": 1, "2": 1, "4": 1}
    with pytest.raises(UserError, match="nothing to undo"):
        again.undo("a new tab")
    again.undo("first")
    assert again.labels() == {"0": 1, "1": 1, "2": 1}
    again.close()
    assert reopened(tmp_path).labels() == {"0": 1, "1": 1, "2": 1}


LABEL = {"seq": 2, "kind": "label", "time": 1.0, "tab": "x", "changes": {"b": 1}}
BAD_TABLES = (
    {}, [], {**TABLE, "classes": [[1, "cat"]]}, {**TABLE, "classes": [["1", "cat", ""]]}, {**TABLE, "classes": [7]},
    {**TABLE, "classes": [[1, None, ""]]}, {**TABLE, "classes": [[1, "cat", ""], [1, "dog", ""]]},
    {**TABLE, "classes": [[1, "cat", ""], [2, "Cat", ""]]}, {**TABLE, "classes": [[10**400, "cat", ""]]},
    {**TABLE, "together": [[1, 9]]}, {**TABLE, "together": 5}, {**TABLE, "apart": [[1]]}, {**TABLE, "apart": [[1, 1]]},
    {**TABLE, "next_number": None}, {**TABLE, "next_number": 1e999},
)  # fmt: skip
BAD_ENTRIES = (
    *({**LABEL, "seq": seq} for seq in (None, "2", 0, -1, 1e999, 2.0, True, 10**30)),
    *({**LABEL, "kind": kind} for kind in (None, "paint", ["label"], "classes", "redo ")),
    *({**LABEL, "time": at} for at in ("now", 1e999, [], None)),
    *({**LABEL, "changes": changes} for changes in ([], ["b"], "b", {"b": "1"}, {"b": [1]}, {"b": 1.5}, {"b": -1})),
    *({**LABEL, "kind": "undo", "changes": {}, "of": of} for of in ("1", [1], None, {})),
    *({**LABEL, "kind": "classes", "changes": {CLASSES: table}} for table in BAD_TABLES),
    {**LABEL, "tab": 7}, {**LABEL, "changes": {CLASSES: TABLE}}, {"seq": 2}, {"kind": "label"}, {**LABEL, "more": 1},
)  # fmt: skip


def test_an_edited_line_with_a_right_checksum_is_skipped_and_reported(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.label({"a": 1})
    journal.label({"b": 2})
    journal.label({"c": 1})
    journal.close()
    lines = journal.file.read_bytes().splitlines(keepends=True)
    for bad in BAD_ENTRIES:
        journal.snapshot_file.unlink()
        journal.file.write_bytes(lines[0] + json.dumps(sealed(bad)).encode() + b"\n" + lines[2])
        again = Journal(tmp_path)
        again.undo()
        again.history(10)
        assert (again.labels(), again.problems) == (
            {"a": 1}, [f"line 2 of {journal.file} cannot be read and is skipped."]
        ), bad  # fmt: skip
        again.close()


@pytest.mark.parametrize("bad", [{}, {"seq": 3}, {"seq": "x", "values": {}}, {"entries": 5}, {"entries": [LABEL, 7]}])
def test_an_edited_snapshot_with_a_right_checksum_is_not_used(tmp_path: Path, bad: dict[str, Any]) -> None:
    journal = reopened(tmp_path)
    journal.snapshot_file.write_text(json.dumps(sealed(bad)))
    assert reopened(tmp_path).problems == [f"{journal.snapshot_file} is damaged and is not used."]


def test_a_damaged_snapshot_is_not_used(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.label({"a": 1})
    journal.close()
    values = json.loads((tmp_path / "snapshot.json").read_text())
    values["entries"][0]["changes"]["a"] = 2
    (tmp_path / "snapshot.json").write_text(json.dumps(values))
    again = reopened(tmp_path)
    assert again.labels() == {"a": 1}
    assert "damaged" in again.problems[0]


def test_a_snapshot_is_written_from_time_to_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _handle: None)
    journal = Journal(tmp_path)
    for number in range(SNAPSHOT_EVERY):
        journal.label({f"{number}": 1})
    assert json.loads((tmp_path / "snapshot.json").read_text())["seq"] == SNAPSHOT_EVERY
    journal.close()


def test_a_line_that_a_kill_cut_short_is_removed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.label({"a": 1})
    journal.close()
    whole = journal.file.read_bytes()
    journal.file.write_bytes(whole + Entry(2, "label", changes={"b": 1}).to_line()[:20])
    again = Journal(tmp_path)
    again.label({"c": 2})
    again.close()
    assert again.problems == []
    assert reopened(tmp_path).labels() == {"a": 1, "c": 2}


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    journal.label({"a": 1})
    before = journal.file.read_bytes()
    write = os.write

    def half(handle: int, content: bytes) -> int:
        if content.endswith(b"}\n") and len(content) > 20:
            return write(handle, content[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(UserError, match="No space left on device"):
        journal.label({"b": 1})
    assert (journal.labels(), journal.seq, journal.file.read_bytes()) == ({"a": 1}, 1, before)
    monkeypatch.setattr(os, "write", write)
    journal.label({"b": 1})
    journal.close()
    assert reopened(tmp_path).labels() == {"a": 1, "b": 1}


def test_half_a_line_that_cannot_be_removed_spoils_no_later_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)

    def fail(*_arguments: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        patch.setattr(os, "ftruncate", fail)
        with pytest.raises(UserError, match="Input/output error"):
            journal.label({"a": 1})
    journal.label({"b": 2})
    journal.close()
    again = reopened(tmp_path)
    assert (again.labels(), again.problems) == ({"b": 2}, [])


WRITER = """
import sys
from pathlib import Path
from semco.studio.journal import Journal
journal = Journal(Path(sys.argv[1]))
number = len(journal.labels())
print("ready", flush=True)
while True:
    journal.label({f"photo-{number}.jpg": number % 3})
    print(number, flush=True)
    number += 1
"""


def test_kills_lose_no_acknowledged_label(tmp_path: Path) -> None:
    """SIGKILL at 20 random instants; the next process reads what the last one had acknowledged."""
    instants = random.Random(0)
    acknowledged = -1
    for _ in range(20):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(instants.uniform(0, 0.02))
        process.kill()
        written = [int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        process.wait()
        process.stdout.close()
        acknowledged = max([acknowledged, *written])
        journal = reopened(tmp_path)
        labels = journal.labels()
        assert journal.problems == []
        assert all(labels[f"photo-{number}.jpg"] == number % 3 for number in range(acknowledged + 1))
        assert len(labels) >= acknowledged + 1
    assert acknowledged > 0


def test_the_table_is_what_training_reads(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    names = ["a.jpg", "b, c.jpg", 'say "d".jpg', "deep/e.jpg", "f.jpg"]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    rows = label_rows({"a.jpg": 1, "b, c.jpg": 2, 'say "d".jpg': 2, "deep/e.jpg": 1, "f.jpg": 9}, {1: "cat", 2: "dog"})
    test = {"test/cat/g.jpg": "cat", "test/cow/h.jpg": None}
    for name in test:
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    file = write_label_file(tmp_path / "labels", rows, test, root)
    assert file.name == "labels.csv"
    listing = list_source(DataConfig(source=str(root), labels_from=file))
    assert listing is not None
    found = {Path(entry.name).name: label for entry, label in zip(listing.train, listing.train.labels, strict=True)}
    assert listing.class_names == ("cat", "dog")
    assert found == {"a.jpg": 0, "b, c.jpg": 1, 'say "d".jpg': 1, "e.jpg": 0, "f.jpg": -1}
    assert [Path(entry.name).name for entry in listing.test] == ["g.jpg"]  # and neither is learned from
    assert csv_text(rows).splitlines()[0] == "path,label"


def test_names_that_a_csv_file_cannot_hold(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    root.mkdir()
    odd = ["two\nlines.jpg", "caf\udce9.jpg", " space.jpg"]
    for name in odd:
        (root / name).touch()
    assert not any(fits_csv(name) for name in odd)
    rows = [(name, ["cat", "dog"][i % 2]) for i, name in enumerate(odd)]
    file = write_label_file(tmp_path / "labels", rows, {}, root)
    assert file.name == "labels.jsonl"
    listing = list_source(DataConfig(source=str(root), labels_from=file))
    assert listing is not None
    assert sorted(listing.train.labels) == [0, 0, 1]


def test_no_labels_are_no_table(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="label some photos"):
        write_label_file(tmp_path / "labels", [], {}, tmp_path)


def test_a_line_that_was_made_a_snapshot_replaces_no_labels(tmp_path: Path) -> None:
    """No version has written such a line; it would stand for all lines before it at the second opening."""
    journal = Journal(tmp_path)
    for number in range(3):
        journal.label({f"{number}.jpg": 1})
    journal.close()
    (tmp_path / "snapshot.json").unlink()
    lines = journal.file.read_bytes().splitlines(keepends=True)
    edited = Entry(2, "snapshot", changes={"1.jpg": 1}).to_line()  # type: ignore[arg-type]
    journal.file.write_bytes(lines[0] + edited + lines[2])
    for _ in range(2):
        opened = Journal(tmp_path)
        assert opened.labels() == {"0.jpg": 1, "2.jpg": 1}
        opened.close()
