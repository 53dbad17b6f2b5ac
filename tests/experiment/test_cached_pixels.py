"""A run on pixels in a file goes exactly as one on pixels in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from semco.config import configure, merge
from semco.experiment import train
from semco.run.folder import RunFolder
from semco.run.identity import changes_of_run, experiment_fields
from tests.conftest import CLASSES, tiny_images
from tests.experiment.same_runs import assert_same_run


@pytest.mark.usefixtures("no_page")
def test_a_run_on_the_file_is_the_run_in_memory(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "stored"))
    for folder, seed in (("photos", 0), ("photos/test", 1)):
        for number, (pixels, label) in enumerate(zip(*tiny_images(10, seed), strict=True)):
            place = tmp_path / folder / CLASSES[label]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(place / f"{number}.png")
    configs = {}
    for where, memory in (("memory", 512), ("cache", 0)):
        data = {"source": str(tmp_path / "photos"), "memory": memory}
        configs[where] = configure(options=merge(tiny_values, {"data": data, "training": {"steps": 4}}))
        train(configs[where], tmp_path / where)
    assert_same_run(tmp_path / "memory", tmp_path / "cache")
    assert len(list((tmp_path / "stored").rglob("pixels.u8"))) == 2
    memory, cache = (RunFolder(tmp_path / where).config().model_dump(mode="json") for where in configs)
    assert changes_of_run(memory, cache) == {}
    assert experiment_fields(memory) == experiment_fields(cache)
