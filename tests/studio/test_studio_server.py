"""The Studio over HTTP: who is let in, labels, faults, and a whole round without a browser."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from semco.errors import UserError
from semco.export.service import app_server
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
    status, headers, _ = studio.raw("GET", f"/?token={studio.guard.token}")
    assert (status, headers["location"]) == (303, "/")
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
    ):
        status, answer = studio.ask("/api/classes", bad)
        assert (status, sentence in answer["error"]) == (400, True), answer
    assert studio.project.journal.seq == seq


def test_bad_requests_get_a_sentence(studio: Studio) -> None:
    for path, body, sentence in (
        ("/api/labels", b"no json", "not a JSON object"),
        ("/api/labels", {"photos": []}, "at least one photo"),
        ("/api/labels", {"photos": [99], "label": 1}, "there is no photo number 99"),
        ("/api/labels", {"photos": [0], "label": 77}, "was removed"),
        ("/api/labels", {"photos": ["../x"], "label": 1}, "a number is expected"),
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
        while not studio.ask("/api/training")[1].get("curves"):
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
        assert finished["curves"]["labelled_accuracy"][-1][0] == 60
        assert finished["checked"] == [[1, 0, 0]]
        review = studio.ask("/api/review")[1]
        assert (review["round"], review["photos"], review["open"]) == (1, 9, 9)
        view = studio.ask("/api/view?order=useful&labelled=no")[1]
        assert sorted(view["numbers"]) == [2, 3, 4, 7, 8, 9, 12, 13, 14]
        guess = view["guesses"][0]
        studio.project.label([view["numbers"][0]], guess, "a", None)
        assert studio.ask("/api/review")[1]["checked"] == {"right": 1, "count": 1, "classes": {str(guess): [1, 1]}}
        assert studio.ask("/api/training")[1]["checked"] == [[1, 1, 1]]
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
