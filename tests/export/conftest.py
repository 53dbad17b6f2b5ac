"""One trained run with its exported model, for all tests of the room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from semco.config import Config
from semco.experiment import train
from semco.export.run import Export, export_run


@pytest.fixture(scope="session")
def run(tiny_values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "run"
    train(Config.parse(tiny_values), folder)
    return folder


@pytest.fixture(scope="session")
def exported(run: Path) -> Export:
    return export_run(run, top=3)
