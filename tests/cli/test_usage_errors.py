"""Wrong command lines and misspelt paths end like any other bad input: one sentence and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.in_process import run_here


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["trian"], ["no such command 'trian'; did you mean 'train'? see semco --help."]),
        (["labels", "lookp"], ["no such command 'lookp'; did you mean 'lookup'? see semco labels --help."]),
        (["--foo"], ["no such option: --foo", "; see semco --help."]),
        (["train", "--stesp", "3"], ["no such option: --stesp", "--steps", "; see semco train --help."]),
        (["train", "--steps", "abc"], ["--steps", "'abc'", "; see semco train --help."]),
        (["serve", "run", "--port", "99999"], ["--port", "99999", "; see semco serve --help."]),
        (["export", "run", "--format", "foo"], ["--format", "'foo'", "'onnx'", "; see semco export --help."]),
        (["compare", "fashion-mini", "--methods", "semco"], ["missing option '--out'", "; see semco compare --help."]),
        (["predict"], ["missing argument 'model'", "; see semco predict --help."]),
        (["doctor", "x"], ["unexpected extra argument", "x", "; see semco doctor --help."]),
    ],
)
def test_a_wrong_command_line_is_one_sentence(arguments: list[str], parts: list[str]) -> None:
    done = run_here(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    for part in parts:
        assert part.lower() in done.stderr.lower()


def test_a_group_of_commands_alone_shows_them() -> None:
    done = run_here("labels")
    assert done.returncode == 2
    assert "lookup" in done.stdout + done.stderr
    assert "error:" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "photoz"],
        ["train", "photoz/birds"],
        ["data", "check", "photoz"],
        ["studio", "photoz"],
        ["predict", "photoz", "x.jpg"],
        ["export", "photoz"],
        ["resume", "photoz"],
    ],
    ids=" ".join,
)
def test_a_misspelt_folder_is_corrected(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    done = run_here(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean 'photos'?" in done.stderr
