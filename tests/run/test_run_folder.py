"""What is said of a folder that cannot be that of a new run."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from semco.config import Config
from semco.errors import UserError
from semco.run import folder
from semco.run.folder import RunFolder, check_free

FINISHED = ("config.yaml", "result.json", "model/model.json", "pseudo_labels.parquet")


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (["photo.jpg"], "RUN exists and is not empty; choose another folder for the new run."),
        (
            FINISHED[:1],
            "RUN holds a run that is not finished; resume it (semco resume 'RUN') or choose another folder for the "
            "new run.",
        ),
        (
            FINISHED,
            "RUN holds a finished run: RUN/report.html is its report, 'semco continue' adds labels to it; choose "
            "another folder for the new run.",
        ),
    ],
    ids=["other files", "a run to resume", "a finished run"],
)
def test_the_error_says_what_to_do_with_what_is_there(files: list[str], sentence: str, tmp_path: Path) -> None:
    run = tmp_path / "my run"
    for file in files:
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).touch()
    with pytest.raises(UserError, match=re.escape(sentence.replace("RUN", str(run)))):
        check_free(run)


def test_of_two_runs_that_begin_at_the_same_instant_one_gets_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have found it free before either writes into it."""
    both_looked = threading.Barrier(2)
    ends: list[str] = []

    def looks(path: Path) -> None:
        check_free(path)
        both_looked.wait(60)

    def begin() -> None:
        try:
            ends.append(str(RunFolder.create(tmp_path / "run", Config(), Config()).path))
        except UserError as error:
            ends.append(str(error))

    monkeypatch.setattr("semco.run.folder.check_free", looks)
    threads = [threading.Thread(target=begin) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lost = ("holds a run that is not finished", "is being trained by another process")
    assert [end for end in ends if not any(sentence in end for sentence in lost)] == [str(tmp_path / "run")]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [".lock", "config.yaml", "request.yaml"]


def test_a_run_that_was_killed_between_its_first_two_files_can_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is written first; without config.yaml the folder holds no run."""
    original = folder.write_text

    def killed(file: Path, text: str) -> None:
        if file.name == "config.yaml":
            raise KeyboardInterrupt
        original(file, text)

    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            RunFolder.create(tmp_path / "run", Config(), Config())
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [".lock", "request.yaml"]
    assert RunFolder.create(tmp_path / "run", Config(), Config()).config() == Config()
    with pytest.raises(UserError, match="holds a run that is not finished"):
        check_free(tmp_path / "run")


def test_a_folder_without_a_request_is_of_an_earlier_version(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", Config(), Config())
    run.request_file.unlink()
    with pytest.raises(UserError, match=r"run was made by an earlier version of SemCo; train it again\."):
        run.request()


@pytest.mark.parametrize("is_there", [False, True])
def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path, is_there: bool) -> None:
    path = tmp_path / "run\udcff"
    if is_there:
        RunFolder.create(tmp_path / "run", Config(), Config()).path.rename(path)
    with pytest.raises(UserError, match=r"run folder '.*run.udcff' has a name that is not UTF-8"):
        RunFolder.open(path) if is_there else RunFolder.create(path, Config(), Config())
    assert path.exists() is is_there
