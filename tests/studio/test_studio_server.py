"""The Studio over HTTP: who is let in, labels, faults, and a whole round without a browser."""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from semco.errors import UserError
from semco.export.service import app_server
from semco.studio.classes import describe
from semco.studio.journal import ClassTable
from semco.studio.project import Project
from tests.studio import studio_server
from tests.studio.studio_server import Studio, copy_fruit

CLASSES = ("granny smith", "orange", "watermelon")
SETTINGS = (
    "model.backbone=wrn-10-1", "data.image_size=16", "training.steps=60", "training.batch_size=4", "training.mu=1",
    "training.log_every=1", "training.device=cpu",
)  # fmt: skip


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    with Studio(copy_fruit(tmp_path / "photos", CLASSES, 2), tmp_path / "project", CLASSES) as started:
        yield started


def test_only_the_page_with_the_token_is_let_in(studio: Studio) -> None:
    bearer = f"Bearer {studio.guard.token}"
    host = f"127.0.0.1:{studio.port}"
    for path in ("/", "/api/state", "/static/app.js", f"/thumbnail/{studio.project.session}/0", "/labels.csv"):
        assert studio.raw("GET", path)[0] == 401, path
        assert studio.raw("GET", path, Authorization="Bearer wrong")[0] == 401, path
        assert studio.raw("GET", path, Authorization=bearer)[0] == 200, path
        assert studio.raw("GET", path, Authorization=bearer, Host="evil.example")[0] == 403, path
        assert studio.raw("GET", path, Authorization=bearer, Origin="http://evil.example")[0] == 403, path
        assert studio.raw("GET", path, Authorization=bearer, Origin=f"http://{host}")[0] == 200, path


def test_a_request_that_never_ends_is_given_up(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studio_server, "app_server", partial(app_server, seconds=0.2))
    studio.stop_server()
    studio.start_server()
    head = (
        f"POST /api/labels HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\nAuthorization: Bearer {studio.guard.token}\r\n"
    )
    with socket.create_connection(("127.0.0.1", studio.port), timeout=20) as client:
        client.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_the_token_in_the_address_becomes_a_cookie(studio: Studio) -> None:
    status, headers, content = studio.raw("GET", f"/?token={studio.guard.token}")
    assert (status, b'content="0; url=/"' in content, studio.guard.token.encode() in content) == (200, True, False)
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    status, headers, content = studio.raw("GET", "/", Cookie=cookie.partition(";")[0])
    assert (status, b"SemCo" in content) == (200, True)
    assert "default-src 'self'" in headers["content-security-policy"]
    assert studio.raw("GET", "/?token=wrong")[0] == 401


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/server.py", "/thumbnail/x/../../etc/passwd"],
)
def test_no_path_leads_out(studio: Studio, path: str) -> None:
    status, _, content = studio.raw("GET", path, Authorization=f"Bearer {studio.guard.token}")
    assert status == 404
    assert b"import" not in content


def test_photos_are_asked_for_by_number(studio: Studio) -> None:
    session = studio.project.session
    bearer = {"Authorization": f"Bearer {studio.guard.token}"}
    status, headers, content = studio.raw("GET", f"/thumbnail/{session}/0", **bearer)
    assert (status, headers["content-type"]) == (200, "image/jpeg")
    assert min(Image.open(io.BytesIO(content)).size) == 224
    assert studio.raw("GET", f"/preview/{session}/5", **bearer)[0] == 200
    assert studio.ask(f"/thumbnail/{session}/6")[0] == 400
    assert studio.ask("/thumbnail/old/0") == (410, {"error": "the Studio was started again; reload the page."})


def test_labels_are_written_and_come_back(studio: Studio) -> None:
    status, answer = studio.ask("/api/labels", {"photos": [0, 3], "label": 1, "seen": 1, "tab": "a"})
    assert (status, answer) == (200, {"seq": 2, "labels": {"0": 1, "3": 1}})
    assert studio.ask("/api/state")[1]["labels"] == {"0": 1, "3": 1}
    content = studio.raw("GET", "/labels.csv", Authorization=f"Bearer {studio.guard.token}")[2].decode()
    name = studio.project.photos.name
    assert list(csv.reader(io.StringIO(content))) == [["path", "label"], [name(0), CLASSES[0]], [name(3), CLASSES[0]]]
    assert studio.ask("/api/undo", {"tab": "a", "seen": 2})[1]["labels"] == {"0": None, "3": None}
    assert [each["undone"] for each in studio.ask("/api/history")[1]] == [True, False]


def test_two_tabs(studio: Studio) -> None:
    studio.ask("/api/labels", {"photos": [0], "label": 1, "seen": 1, "tab": "a"})
    status, answer = studio.ask("/api/labels", {"photos": [0, 1], "label": 2, "seen": 1, "tab": "b"})
    assert (status, answer["labels"]) == (409, {"0": 1})
    assert "in another tab" in answer["error"]
    assert studio.ask("/api/labels", {"photos": [0, 1], "label": 2, "seen": answer["seq"], "tab": "b"})[0] == 200


def test_classes_are_changed_and_bad_changes_refused(studio: Studio) -> None:
    status, described = studio.ask("/api/classes", {"action": "add", "names": ["pear"]})
    assert (status, [each["name"] for each in described["classes"]]) == (200, [*CLASSES, "pear"])
    studio.ask("/api/labels", {"photos": [0], "label": 4, "seen": 99, "tab": "a"})
    assert studio.ask("/api/classes", {"action": "remove", "class": 4})[0] == 200
    assert studio.ask("/api/state")[1]["labels"] == {}
    seq = studio.project.journal.seq
    for bad, sentence in (
        ({"action": "add", "names": ["orange"]}, "already"),
        ({"action": "alias", "class": 1, "alias": "qqqqqqqq"}, "qqqqqqqq"),
        ({"action": "rename", "class": 77, "name": "x"}, "was removed"),
        ({"action": "paint"}, "not understood"),
        ({"action": "pair", "class": 1}, "not understood"),
        ({"action": "add", "names": "pear"}, "a list of texts"),
        ({"action": "add", "names": [None]}, "a list of texts"),
        ({"action": "add", "names": ["\ud800"]}, "no character"),
        ({"action": "remove", "class": math.inf}, "not inf"),
        ({"action": "remove", "class": 1.5}, "not 1.5"),
        ({"action": "move", "class": 1, "place": math.inf}, "not inf"),
        ({"action": "add", "names": [f"a{number}" for number in range(1000)]}, "at most 1,000"),
    ):
        status, answer = studio.ask("/api/classes", bad)
        assert (status, sentence in answer["error"]) == (400, True), answer
    assert studio.project.journal.seq == seq


def names(studio: Studio) -> dict[int, str]:
    return dict(studio.ask("/api/state")[1]["classes"])


def at_once(studio: Studio, bodies: list[dict[str, Any]]) -> list[tuple[int, Any]]:
    """Send changes of the classes at the same instant and return their answers."""
    start = threading.Barrier(len(bodies))

    def send(body: dict[str, Any]) -> tuple[int, Any]:
        start.wait(60)
        return studio.ask("/api/classes", body)

    with ThreadPoolExecutor(len(bodies)) as threads:
        return list(threads.map(send, bodies))


def test_overlapping_changes_of_every_kind_are_all_made(tmp_path: Path) -> None:
    photos = copy_fruit(tmp_path / "photos", CLASSES[:1], 1)
    with Studio(photos, tmp_path / "project", ("apple", "pear", "dog", "cat", "car")) as studio:
        changes = [
            {"action": "add", "names": ["plum"], "tab": "a"},
            {"action": "add", "names": ["owl", "crow"], "tab": "b"},
            {"action": "rename", "class": 1, "name": "orange", "tab": "a"},
            {"action": "remove", "class": 2, "tab": "b"},
            {"action": "alias", "class": 3, "alias": "puppy", "tab": "a"},
            {"action": "pair", "class": 3, "other": 4, "how": "apart", "tab": "b"},
            {"action": "move", "class": 5, "place": 0, "tab": "a"},
        ]
        answers = at_once(studio, [{**change, "seen": 1} for change in changes])
        assert [status for status, _ in answers] == [200] * len(changes)
        assert len({answer["seq"] for _, answer in answers}) == len(changes)
        assert set(names(studio).values()) == {"orange", "dog", "cat", "car", "plum", "owl", "crow"}
        described = studio.ask("/api/classes")[1]
        assert (described["classes"][0]["name"], described["apart"]) == ("car", [[3, 4]])
        assert next(each for each in described["classes"] if each["number"] == 3)["alias"] == "puppy"
        # Two tabs change the same at once: the second is told so, and nothing that it has not seen is overwritten.
        seen = described["seq"]
        for one, other in (
            ({"action": "rename", "class": 1, "name": "red"}, {"action": "rename", "class": 1, "name": "blue"}),
            ({"action": "remove", "class": 4}, {"action": "rename", "class": 4, "name": "tiger"}),
            ({"action": "add", "names": ["bee"]}, {"action": "add", "names": ["Bee"]}),
        ):
            statuses = sorted(status for status, _ in at_once(studio, [{**one, "seen": seen}, {**other, "seen": seen}]))
            assert statuses[0] == 200
            assert statuses[1] in (400, 409)


def test_a_change_of_what_another_tab_has_changed_is_refused(studio: Studio) -> None:
    assert studio.ask("/api/classes", {"action": "rename", "class": 1, "name": "apple", "seen": 1})[0] == 200
    pair = {"action": "pair", "class": 1, "other": 2}
    assert studio.ask("/api/classes", {**pair, "how": "together", "seen": 1})[0] == 200
    for change in (
        {"action": "remove", "class": 1},
        {**pair, "how": "apart"},
        {"action": "alias", "class": 1, "alias": "x"},
    ):
        status, answer = studio.ask("/api/classes", {**change, "seen": 1})
        assert (status, "another tab has changed this" in answer["error"]) == (409, True)
    assert studio.ask("/api/classes", {"action": "remove", "class": 1, "seen": 3})[0] == 200


def test_the_words_are_looked_up_without_holding_labels(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a change of the classes waits for its words, labels are written and another change is undone."""
    assert studio.ask("/api/classes", {"action": "add", "names": ["pear"], "tab": "y"})[0] == 200
    looked_up, go_on = threading.Event(), threading.Event()

    def slow(table: ClassTable) -> dict[str, Any]:
        looked_up.set()
        assert go_on.wait(60)
        return describe(table)

    monkeypatch.setattr("semco.studio.project.describe", slow)
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(studio.ask, "/api/classes", {"action": "add", "names": ["plum"], "tab": "x"})
        assert looked_up.wait(60)
        assert studio.ask("/api/labels", {"photos": [0], "label": 1, "seen": 2})[0] == 200
        assert studio.ask("/api/undo", {"tab": "y", "seen": 2})[0] == 200
        go_on.set()
        assert answer.result()[0] == 200
    assert names(studio) == {1: CLASSES[0], 2: CLASSES[1], 3: CLASSES[2], 5: "plum"}


def test_a_number_of_a_class_is_never_used_again(tmp_path: Path) -> None:
    """Labels keep their class, or none, whatever is undone, redone, renamed, removed or damaged."""
    photos, folder = copy_fruit(tmp_path / "photos", CLASSES, 2), tmp_path / "project"
    with Studio(photos, folder, CLASSES) as studio:
        studio.ask("/api/classes", {"action": "add", "names": ["cat"], "tab": "y"})
        assert studio.ask("/api/labels", {"photos": [0, 1, 2], "label": 4, "seen": 2, "tab": "x"})[0] == 200
        studio.ask("/api/undo", {"tab": "y"})
        studio.ask("/api/classes", {"action": "add", "names": ["dog"], "tab": "y"})
        assert (names(studio)[5], studio.project.csv()) == ("dog", "path,label\n")
        studio.ask("/api/undo", {"of": 2, "redo": True})
        assert names(studio)[4] == "cat"
        assert {name for _, name in studio.project.rows()} == {"cat"}
        studio.ask("/api/classes", {"action": "rename", "class": 4, "name": "tiger", "tab": "z"})
        studio.ask("/api/undo", {"tab": "z"})
        studio.ask("/api/undo", {"of": 2})
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"?" + b"".join(lines)[1:])
    with Studio(photos, folder, ("owl",)) as studio:
        assert names(studio)[6] == "owl"
        assert studio.project.rows() == []
    (folder / "snapshot.json").unlink()
    (folder / "journal.jsonl").write_bytes(lines[2])  # only the labels are left
    with Studio(photos, folder, ("owl",)) as studio:
        assert names(studio) == {5: "owl"}


def test_undo_of_classes_keeps_what_came_later(studio: Studio) -> None:
    """Also what another tab did: tab y removes a class, tab x adds one, and y wants its class back."""
    studio.ask("/api/labels", {"photos": [0], "label": 1, "seen": 1, "tab": "x"})
    studio.ask("/api/classes", {"action": "remove", "class": 1, "tab": "y"})
    studio.ask("/api/classes", {"action": "add", "names": ["plum"], "tab": "x"})
    assert studio.ask("/api/undo", {"tab": "y"})[0] == 200
    assert list(names(studio).values()) == [*CLASSES, "plum"]
    assert studio.ask("/api/state")[1]["labels"] == {"0": 1}
    assert studio.ask("/api/undo", {"tab": "x"})[0] == 200
    assert list(names(studio).values()) == list(CLASSES)
    studio.ask("/api/undo", {"of": 3, "redo": True})
    assert names(studio) == {2: CLASSES[1], 3: CLASSES[2]}
    studio.ask("/api/classes", {"action": "add", "names": [CLASSES[0]], "tab": "x"})
    status, answer = studio.ask("/api/undo", {"of": 3})
    assert (status, "another class has got the name" in answer["error"]) == (400, True)
    assert studio.ask("/api/undo", {"tab": "a new tab"})[0] == 400  # the classes of the command line stay


def test_bad_requests_get_a_sentence(studio: Studio) -> None:
    for path, body, sentence in (
        ("/api/labels", b"no json", "not a JSON object"),
        ("/api/labels", {"photos": []}, "at least one photo"),
        ("/api/labels", {"photos": [99], "label": 1}, "there is no photo number 99"),
        ("/api/labels", {"photos": [0], "label": 77}, "was removed"),
        ("/api/labels", {"photos": ["../x"], "label": 1}, "a number is expected"),
        ("/api/labels", {"photos": [math.inf], "label": 1}, "a number is expected"),
        ("/api/labels", {"photos": [0], "label": math.inf}, "a number is expected"),
        ("/api/labels", {"photos": [0], "label": 10**300}, "was removed"),
        ("/api/labels", {"photos": [0], "label": 1, "seen": math.inf}, "a number is expected"),
        ("/api/undo", {"of": math.inf}, "a number is expected"),
        ("/api/training", {"action": "start"}, "at least two classes"),
        ("/api/training", {"action": "start", "minutes": -1}, "minutes"),
        ("/api/training", {"action": "resume"}, "no stopped round"),
        ("/api/training", {"action": "dance"}, "not 'dance'"),
        ("/api/predict", b"photo", "train a round first"),
        ("/api/exports", {"kind": "onnx"}, "train a round first"),
        ("/api/exports", {"kind": "sort", "least": "much"}, "from 0 to 1"),
        ("/api/undo", {"tab": "z", "of": 55}, "nothing to undo"),
        ("/api/labels", b"x" * 2_000_001, "larger than 2 MB"),
    ):
        status, answer = studio.ask(path, body)
        assert 400 <= status < 500, answer
        assert sentence in answer["error"], answer
    assert studio.ask("/api/view?order=colour")[0] == 400
    assert studio.ask("/report/1")[0] == 404
    assert studio.ask("/nowhere")[0] == 404
    for path in ("/thumbnail/x/", "/preview/x/", "/report/", "/api/name/"):
        assert 400 <= studio.ask(f"{path}{'9' * 5000}")[0] < 500


def test_faults_are_sentences_and_lose_nothing(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    studio.ask("/api/labels", {"photos": [0], "label": 1, "seen": 1})

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        status, answer = studio.ask("/api/labels", {"photos": [1], "label": 2, "seen": 2})
    assert (status, "No space left on device" in answer["error"]) == (400, True)
    assert studio.ask("/api/state")[1]["labels"] == {"0": 1}
    photo = studio.project.photos.path(1)
    photo.write_bytes(b"damaged")
    status, answer = studio.ask(f"/thumbnail/{studio.project.session}/1")
    assert (status, "cannot be read" in answer["error"]) == (415, True)
    shutil.rmtree(studio.project.photos.root)
    status, state = studio.ask("/api/state")
    assert (status, state["labels"]) == (200, {"0": 1})
    assert "is not there any more" in state["problems"][0]
    assert studio.ask(f"/thumbnail/{studio.project.session}/2")[0] == 415
    assert studio.ask("/api/labels", {"photos": [2], "label": 2, "seen": 9})[0] == 200


def test_a_damaged_journal_is_reported_on_the_page(tmp_path: Path) -> None:
    photos = copy_fruit(tmp_path / "photos", CLASSES, 1)
    with Project(photos, tmp_path / "project", CLASSES) as project:
        project.label([0], 1, "a", None)
        project.label([1], 2, "a", None)
    (tmp_path / "project" / "snapshot.json").unlink()
    journal = tmp_path / "project" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + b"damaged\n" + lines[2])
    with Project(photos, tmp_path / "project") as project:
        state = project.state(None)
        assert state["labels"] == {1: 2}
        assert state["problems"] == [f"line 2 of {journal} cannot be read and is skipped."]


def test_names_that_are_no_text_can_be_shown(tmp_path: Path) -> None:
    """Of the folder, of a photo, and of a class in the journal of an earlier version, which did not check it."""
    photos = copy_fruit(tmp_path / os.fsdecode(b"caf\xe9"), CLASSES[:1], 1)
    (photo,) = photos.iterdir()
    photo.rename(photo.with_name(os.fsdecode(b"r\xe9.jpg")))
    with Project(photos, tmp_path / "project") as project:
        project.journal.set_classes({"classes": [[1, "a\ud800", ""], [2, "dog", ""]], "next_number": 3})
    with Studio(photos, tmp_path / "project") as studio:
        studio.project.label([0], 1, "a", None)
        status, state = studio.ask("/api/state")
        assert (status, state["root"], state["classes"][0]) == (200, str(photos), [1, "a\ud800"])
        assert studio.ask("/api/name/0") == (200, {"name": "r\udce9.jpg"})
        assert studio.ask("/api/classes")[0] == 200
        assert studio.raw("GET", "/labels.csv", Authorization=f"Bearer {studio.guard.token}")[0] == 200
        assert studio.ask(f"/thumbnail/{studio.project.session}/0", b"")[0] == 405
        status, described = studio.ask("/api/classes", {"action": "rename", "class": 1, "name": "cat"})
        assert (status, described["classes"][0]["name"]) == (200, "cat")


def test_folders_that_are_called_like_rounds(tmp_path: Path) -> None:
    photos, runs = copy_fruit(tmp_path / "photos", CLASSES, 1), tmp_path / "project/runs"
    for name in ("round-999999", f"round-{10**30}", "round-007", "round-\N{ARABIC-INDIC DIGIT FIVE}", "round-2"):
        (runs / name).mkdir(parents=True)
    with Studio(photos, tmp_path / "project", CLASSES) as studio:
        assert studio.ask("/api/state")[1]["training"] == {"round": 999999, "running": False}
        for number, label in enumerate((1, 2, 3)):
            studio.project.label([number], label, "a", None)
        status, answer = studio.ask("/api/training", {"action": "start", "start": "scratch"})
        assert (status, "give that folder another name" in answer["error"]) == (400, True)
        (runs / "round-999999.status.json").write_text("{}")
        status, answer = studio.ask("/api/training")
        assert (status, "does not say how far the job is" in answer["error"]) == (400, True)


def test_a_project_is_open_once(tmp_path: Path) -> None:
    photos = copy_fruit(tmp_path / "photos", CLASSES, 1)
    with Project(photos, tmp_path / "project"), pytest.raises(UserError, match="open in another Studio"):
        Project(photos, tmp_path / "project")
    with pytest.raises(UserError, match="inside the photos"):
        Project(photos, photos / "project")


@pytest.mark.usefixtures("forked_processes")
def test_a_round_is_trained_stopped_resumed_and_used(tmp_path: Path) -> None:
    """Train in a process of its own, stop it, resume it, read its answers, predict a photo, sort all photos."""
    photos = copy_fruit(tmp_path / "photos", CLASSES, 5)
    with Studio(photos, tmp_path / "project", CLASSES, SETTINGS) as studio:
        for number, label in ((0, 1), (1, 1), (5, 2), (6, 2), (10, 3), (11, 3)):
            studio.project.label([number], label, "a", None)
        assert studio.ask("/api/training", {"action": "start", "start": "scratch"})[1]["state"] == "running"
        assert studio.ask("/api/training", {"action": "start"})[0] == 400  # one at a time
        while not (status := studio.ask("/api/training")[1]).get("curves"):
            assert status["state"] == "running", status
            time.sleep(0.05)
        studio.ask("/api/training", {"action": "stop"})
        stopped = studio.wait_for("/api/training", "stopped")
        assert stopped["can_resume"]
        config = tmp_path / "project/runs/round-1/config.yaml"
        assert "wrn-10-1" in config.read_text()
    with Studio(photos, tmp_path / "project") as studio:  # the Studio was closed in between
        assert studio.ask("/api/training")[1]["can_resume"]
        assert studio.ask("/api/review")[1] is None
        studio.ask("/api/training", {"action": "resume"})
        finished = studio.wait_for("/api/training", "finished")
        assert finished["step"] == 60
        assert finished["curves"]["loss"][-1][0] == 60
        assert "labelled_accuracy" not in finished["curves"]
        assert finished["accuracies"] == [{"round": 1, "accuracy": None}]  # there are no photos to measure it on
        review = studio.ask("/api/review")[1]
        assert (review["round"], review["photos"], review["open"]) == (1, 9, 9)
        view = studio.ask("/api/view?order=useful&labelled=no")[1]
        assert sorted(view["numbers"]) == [2, 3, 4, 7, 8, 9, 12, 13, 14]
        guess = view["guesses"][0]
        studio.project.label([view["numbers"][0]], guess, "a", None)  # a person confirms an answer that is shown
        assert studio.ask("/api/review")[1]["checked"]["count"] == 0
        for number, right in zip(view["numbers"][1:3], (1, 0), strict=True):
            label = guess_of(view, number) if right else 1 + guess_of(view, number) % 3
            body = {"photos": [number], "label": label, "seen": 99, "tab": "b", "blind": True}
            assert studio.ask("/api/labels", body)[0] == 200
        checked = studio.ask("/api/review")[1]["checked"]
        assert (checked["right"], checked["count"]) == (1, 2)
        studio.ask("/api/undo", {"tab": "b", "seen": 99})
        assert studio.ask("/api/review")[1]["checked"]["count"] == 1
        (answer,) = studio.ask("/api/predict", studio.project.photos.path(0).read_bytes())[1]["predictions"]
        assert answer["label"] in CLASSES
        studio.ask("/api/exports", {"kind": "sort", "least": 0.5, "link": True})
        while (sorted_photos := studio.ask("/api/exports")[1]["sort"])["state"] == "running":
            time.sleep(0.2)
        assert (sorted_photos["state"], sorted_photos["photos"]) == ("finished", 15)
        found = list((tmp_path / "project/exports/sorted-1").rglob("*.jpg"))
        assert len(found) == 15
        assert all(path.is_symlink() and path.resolve().parent == photos.resolve() for path in found)
        assert json.loads((tmp_path / "project/runs/round-1/result.json").read_text())["steps"] == 60


def guess_of(view: dict[str, Any], number: int) -> int:
    return int(view["guesses"][view["numbers"].index(number)])
