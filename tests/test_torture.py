"""The harness of `make torture` finds failures that are planted, and repeats them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torture.attack import Attack, Case, Failure, Outcome
from torture.kills import compare
from torture.originals import small_values, write_data
from torture.studio_memory import Change, Memory
from torture.summary import Tally
from torture.workers import attempt

import semco
from semco.config import configure
from semco.errors import UserError
from semco.experiment import train

TESTS = Path(__file__).parent


def broken(case: Case) -> str:
    """Fails in several ways, depending on the case."""
    way = case.random.choice(("right", "refused", "KeyError", "silent", "outside"))
    if way == "refused":
        raise UserError("the file is damaged; restore it.")
    if way == "KeyError":
        raise KeyError(case.random.random())
    if way == "silent":
        raise Failure("silently accepted: another result")
    if way == "outside":
        (case.outside / "victim.txt").write_text("changed")
    return "right"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("originals", "worker/outside", "worker/home"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "worker" / "outside" / "victim.txt").write_text("not to be touched\n")
    return tmp_path / "worker"


def test_every_kind_of_failure_is_found_and_a_case_can_be_repeated(root: Path) -> None:
    attack = Attack("broken", cases=40, minutes=1, case=broken)
    outcomes = [attempt(attack, None, root, 7, number) for number in range(40)]
    assert {(outcome.ending, outcome.failure) for outcome in outcomes} == {
        ("right", None),
        ("refused", None),
        ("failed", "KeyError in the attack itself"),
        ("failed", "silently accepted: another result"),
        ("failed", "wrote outside its folder"),
    }
    again = [attempt(attack, None, root, 7, number) for number in range(39, -1, -1)]
    assert again[::-1] == outcomes
    assert [attempt(attack, None, root, 8, number) for number in range(40)] != outcomes


def test_the_first_case_of_a_kind_is_reported_with_its_command() -> None:
    tally = Tally("broken", wanted=4, seed=7)
    for number, failure in ((2, None), (3, "KeyError in x"), (1, "KeyError in x"), (0, None)):
        tally.add(Outcome(number, "right" if failure is None else "failed", failure))
    assert (tally.tried, tally.survived, tally.failed) == (4, 2, 2)
    (kind,) = tally.kinds.values()
    assert (kind.count, kind.command) == (2, "make torture SEED=7 ONLY=broken CASE=1")


def line(seq: int, kind: str, **values: object) -> dict[str, object]:
    return {"seq": seq, "kind": kind, "tab": "a", **values}


def test_the_memory_of_tabs_finds_what_a_studio_loses_or_changes(tmp_path: Path) -> None:
    first, file = {1: "red"}, tmp_path / "journal.jsonl"
    added = line(1, "classes", changes={"": {"classes": [[1, "red", ""], [2, "cat", ""]]}})
    labelled = line(2, "label", changes={"0.png": 2})

    def memory(*lines: dict[str, object]) -> Memory:
        asked = [Change("add", {"names": ["cat"]}), Change("label", {"photos": [0], "label": 2})]
        found = Memory(["0.png"], {"a": asked}, {"a": Change("undo", {})})
        file.write_text("".join(json.dumps(each) + "\n" for each in lines) + '{"cut sho')
        found.settle(file)
        return found

    state = {"classes": [[1, "red"], [2, "cat"]], "labels": {"0": 2}}
    memory(added, labelled).check(state, "path,label\n0.png,cat\n", first)
    undone = memory(added, labelled, line(3, "undo", of=2))  # the kill came after the line was written
    undone.check({**state, "labels": {}}, "path,label\n", first)
    for lines, shown, csv, kind in (
        ([added], state, "", "an acknowledged change is lost"),
        ([added, {**labelled, "changes": {"0.png": 1}}], state, "", "a line of the journal"),
        ([added, labelled], {**state, "labels": {}}, "", "labels are lost"),
        ([added, labelled], {**state, "classes": [[1, "red"], [2, "dog"]]}, "", "classes are lost"),
        ([added, labelled], state, "path,label\n0.png,red\n", "labels.csv has other labels"),
        ([{**added, "changes": {"": {"classes": [[1, "cat", ""]]}}}, labelled], state, "", "is used twice"),
    ):
        with pytest.raises(Failure, match=kind):
            memory(*lines).check(shown, csv, first)


PROGRAM = """
import json, os, sys, time
from pathlib import Path
from torture.attack import Attack
from torture.runner import run_attack

def case(case):
    way = case.random.choice(("right", "KeyError", "hang", "crash", "memory"))
    if way == "KeyError":
        raise KeyError(way)
    if way == "hang":
        time.sleep(240)
    if way == "crash":
        os.abort()
    if way == "memory":
        bytearray(1 << 30)
    return "right"

attack = Attack("broken", cases=12, minutes=5, case=case, limit=0.8)
print(json.dumps(run_attack(attack, Path(sys.argv[1]), 3, range(12), time.monotonic() + 240).as_dict()))
"""


def test_hangs_crashes_and_much_memory_are_failures(tmp_path: Path) -> None:
    """In a program of its own, because forking a process that runs tests is not safe."""
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{Path(semco.__file__).parents[1]}"}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "work")]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    kinds = {failure["kind"]: failure for failure in found["failures"]}
    assert set(kinds) == {
        "KeyError in the attack itself",
        "hang in an unknown place",
        "the process died of SIGABRT",
        "MemoryError in the attack itself",
    }
    assert all(failure["repeated"] for failure in kinds.values())
    assert found["survived"] == found["endings"]["right"] == 12 - found["failed"]


@pytest.mark.usefixtures("no_page")
def test_two_runs_are_equal_unless_a_file_differs(tmp_path: Path) -> None:
    write_data(tmp_path)
    for name in ("one", "other"):
        train(configure(options=small_values(tmp_path, 4)), tmp_path / name)
    compare(tmp_path / "one", tmp_path / "other")
    (tmp_path / "other" / ".result.json.abcdefgh.tmp").touch()
    with pytest.raises(Failure, match="temporary files are left"):
        compare(tmp_path / "one", tmp_path / "other")
    (tmp_path / "other" / "labels.json").write_text("{}")
    with pytest.raises(Failure, match=r"another labels\.json"):
        compare(tmp_path / "one", tmp_path / "other")
