"""What is said of a folder that cannot be that of a new run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from semco.errors import UserError
from semco.run.folder import check_free

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
