"""Where `semco analyse` writes its page."""

from __future__ import annotations

from pathlib import Path

from semco.cli.analyse import page_file


def test_a_name_without_an_ending_is_a_folder(tmp_path: Path) -> None:
    assert page_file(tmp_path / "an") == tmp_path / "an" / "analysis.html"
    assert (tmp_path / "an").is_dir()
    assert page_file(tmp_path / "page.html") == tmp_path / "page.html"
