"""``semco report`` over run folders."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from semco.cli.report import report
from semco.errors import UserError
from semco.report import write_report


def _app() -> typer.Typer:
    app = typer.Typer()
    app.command()(report)
    return app


def test_the_page_is_written_into_the_first_run(make_run) -> None:
    folder = make_run("semco")
    result = CliRunner().invoke(_app(), [str(folder)])
    assert result.exit_code == 0
    assert "<h1>SemCo on fashion-mini</h1>" in (folder / "report.html").read_text(encoding="utf-8")
    assert "report.html" in result.stdout


def test_several_runs_and_a_chosen_file(make_run, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "page.html"
    runs = [str(make_run("semco")), str(make_run("fixmatch", killed_at=200))]
    result = CliRunner().invoke(_app(), [*runs, "--out", str(out), "--title", "Two <runs>"])
    assert result.exit_code == 0
    assert "<h1>Two &lt;runs&gt;</h1>" in out.read_text(encoding="utf-8")
    assert "0 of 1" in result.stdout


def test_a_file_that_cannot_be_written_is_named(make_run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write .*page\.html"):
        write_report([make_run("semco", killed_at=20)], tmp_path / "file" / "page.html")
    with pytest.raises(UserError, match="cannot write"):
        write_report([make_run("semco", killed_at=20)], tmp_path)
