"""Commands that train several runs, on tiny data and in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from semco.config import Config
from semco.experiment import train


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that were trained, in this process and with an empty page."""
    names: list[str] = []

    def run_command(command: Sequence[str], *_: object) -> tuple[int, str]:
        file, out = (Path(command[command.index(option) + 1]) for option in ("--config", "--out"))
        train(Config.parse(yaml.safe_load(file.read_text(encoding="utf-8"))), out)
        names.append(out.name)
        return 0, ""

    monkeypatch.setattr("semco.experiment.engines.local._run_command", run_command)
    monkeypatch.setattr("semco.experiment.write.write_report", lambda _, page: page.touch())
    return names


@pytest.fixture
def tiny_options(tiny_values: dict[str, Any]) -> list[str]:
    """The tiny values as arguments, with runs of two steps."""
    fields = {f"{part}.{name}": value for part, values in tiny_values.items() for name, value in values.items()}
    fields |= {"training.steps": 2, "training.batch_size": 4, "training.mu": 1}
    source = fields.pop("data.source")
    del fields["labels.eps"]
    return [source, *(argument for name, value in fields.items() for argument in ("--set", f"{name}={value}"))]
