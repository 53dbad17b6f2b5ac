"""One trained run with its exported model, for all tests of the room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from semco.config import Config
from semco.experiment import train
from semco.export.run import Export, export_run
from tests.conftest import tiny_images


@pytest.fixture(scope="session")
def run(tiny_values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "run"
    train(Config.parse(tiny_values), folder)
    return folder


@pytest.fixture(scope="session")
def exported(run: Path) -> Export:
    return export_run(run, top=3)


@pytest.fixture(scope="session")
def photos() -> NDArray[np.uint8]:
    images, _ = tiny_images(5, seed=8)
    return np.repeat(images[..., None], 3, axis=3)
