"""The ``semco labels`` commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from semco.cli.labels import app
from semco.data.class_names import CIFAR10, CIFAR100, FASHION, class_names
from semco.errors import UserError
from semco.labels.store import VectorStore

TERMS = ("cat", "dog", "puppy", "car", "tree", "oak", "pine", "sun")
ANGLES = (0, 60, 65, 180, 270, 280, 260, 120)  # cosine distances: dog-puppy 0.004, oak-tree 0.015


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("cli") / "store"
    angles = np.deg2rad(ANGLES)
    matrix = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    VectorStore.write(folder, TERMS, matrix, range(len(TERMS)), {"default_eps": 0.05})
    return str(folder)


@pytest.fixture
def names(tmp_path: Path) -> str:
    path = tmp_path / "names.txt"
    path.write_text("cat\nDogs\n\npuppy\noak tree\n the car \n", encoding="utf-8")
    return str(path)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def last_line(result: Result) -> Any:
    return json.loads(result.stdout.strip().splitlines()[-1])


def test_lookup_shows_term_route_and_neighbours(store: str) -> None:
    text = run("lookup", "Dogs", "the car", "--vectors", store, "--near", "1").stdout
    rows = [line.split() for line in text.splitlines()]
    assert ["Dogs", "dog", "lemma", "0.9", "puppy", "1.00"] in rows
    assert ["the", "car", "car", "without", "article", "1.0", "sun", "0.50"] in rows


def test_lookup_as_json(store: str) -> None:
    found = last_line(run("lookup", "Dogs", "--vectors", store, "--json"))
    assert found["Dogs"]["term"] == "dog"
    assert found["Dogs"]["route"] == "lemma"
    assert next(iter(found["Dogs"]["nearest"])) == "puppy"


def test_lookup_shows_what_a_run_would_use_doubtful_names_first(store: str) -> None:
    result = run("lookup", "cat", "Zwetschge", "--vectors", store)
    lines = [line.split()[0] for line in result.stdout.splitlines()]
    assert lines == ["name", "Zwetschge", "cat"]
    assert "own vector" in result.stdout


def test_nearest(store: str) -> None:
    found = last_line(run("nearest", "oak", "-n", "2", "--vectors", store, "--json"))
    assert list(found["nearest"]) == ["tree", "pine"]
    assert found["nearest"]["tree"] == pytest.approx(np.cos(np.deg2rad(10)), abs=1e-3)
    assert "0.985" in run("nearest", "oak", "--vectors", store).stdout


def test_groups_as_json(store: str, names: str) -> None:
    result = run("groups", names, "--vectors", store, "--alias", "cat=pine", "--json")
    assert last_line(result) == {
        "eps": 0.05,
        "lowest_cosine": pytest.approx({"cat, oak tree": 0.9848, "Dogs, puppy": 0.9962}, abs=1e-3),
        "groups": [["cat", "oak tree"], ["Dogs", "puppy"], ["the car"]],
        "terms": {
            "cat": {"term": "pine", "route": "alias"},
            "Dogs": {"term": "dog", "route": "lemma"},
            "puppy": {"term": "puppy", "route": "exact"},
            "oak tree": {"term": "tree", "route": "head noun"},
            "the car": {"term": "car", "route": "without article"},
        },
    }
    assert len(result.stdout.strip().splitlines()) == 1


def test_groups_as_text(store: str, names: str) -> None:
    text = run("groups", names, "--vectors", store).stdout
    assert "Dogs, puppy" in text
    assert "5 classes, 4 groups, 3 classes alone" in text
    assert "No group has more than one class" in run("groups", names, "--vectors", store, "--eps", "0").stdout


def test_notes_go_to_stderr(store: str, names: str) -> None:
    result = run("groups", names, "--vectors", store, "--eps", "2", "--alias", "nobody=cat", "--json")
    assert last_line(result)["eps"] == 2
    assert "puts all 5 classes into one group" in result.stderr
    assert "the alias 'nobody' belongs to no class" in result.stderr


def test_groups_of_names_on_the_command_line(store: str) -> None:
    found = last_line(run("groups", "Dogs", "puppy", "cat", "--vectors", store, "--json"))
    assert found["groups"] == [["Dogs", "puppy"], ["cat"]]


def test_groups_from_a_matrix_and_from_attributes(tmp_path: Path, names: str) -> None:
    np.save(tmp_path / "m.npy", np.random.default_rng(0).normal(size=(5, 9)))
    for option in ("--matrix", "--attributes"):
        found = last_line(run("groups", names, option, str(tmp_path / "m.npy"), "--json"))
        assert [len(members) for members in found["groups"]] == [1] * 5


def test_the_page_of_the_groups(store: str, names: str, tmp_path: Path) -> None:
    run("groups", names, "--vectors", store, "--page", str(tmp_path / "p.html"))
    assert "Dogs, puppy" in (tmp_path / "p.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["groups", "no-such"], "neither a file, a folder nor a known data set"),
        (["groups", "cifar-10"], "did you mean 'cifar10'"),
        (["groups", "cifar10", "--alias", "x"], "--alias takes NAME=TERM"),
        (["groups", "cifar10", "--matrix", "a.npy", "--encoder", "b"], "give only one of --vectors"),
        (["groups", "cifar10", "--vectors", "nowhere"], "not a vector store"),
        (["build", "--conceptnet", "c", "--out", "o", "--glove", "g", "--relations", "IsA=x"], "has no number"),
        (["build", "--conceptnet", "c", "--out", "o"], "a build needs vectors"),
        (["fetch", "glov", "--to", "t"], "did you mean 'glove'"),
    ],
)
def test_bad_input(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        run(*arguments)


def test_build(tmp_path: Path) -> None:
    words = {"cat": "1 0 0", "dog": "0.9 0.1 0", "car": "0 0 1", "bus": "0 0.2 1"}
    (tmp_path / "g.txt").write_text("".join(f"{word} {values}\n" for word, values in words.items()))
    edge = '/a/x\t/r/IsA\t/c/en/cat\t/c/en/animal\t{"weight": 1.0}\n'
    (tmp_path / "c.csv").write_text(edge)
    files = ("--glove", str(tmp_path / "g.txt"), "--conceptnet", str(tmp_path / "c.csv"))
    text = run("build", *files, "--out", str(tmp_path / "s"), "--dim", "2", "--relations", "IsA=0.5,Synonym").stdout
    assert "5 terms, 2-d" in text
    assert "animal" in VectorStore.open(tmp_path / "s")


def test_class_names(tmp_path: Path) -> None:
    assert (len(FASHION), len(CIFAR10), len(CIFAR100)) == (10, 10, 100)
    assert len(set(CIFAR100)) == 100
    assert sorted(CIFAR100) == list(CIFAR100)
    assert class_names("fashion-mini") == FASHION
    for name in ("b", "a", ".hidden", "unlabeled", "test"):
        (tmp_path / "photos" / name).mkdir(parents=True)
    assert class_names(str(tmp_path / "photos")) == ("a", "b")
    for content in (b"", b"\n \n", b"\xff\xfe\x00"):
        (tmp_path / "n.txt").write_bytes(content)
        with pytest.raises(UserError, match=r"is empty|UTF-8"):
            class_names(str(tmp_path / "n.txt"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no class folder"):
        class_names(str(tmp_path / "empty"))
