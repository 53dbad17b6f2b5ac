"""What Ray costs: a comparison and a prediction by the local engine and by a Ray on this machine, in one run."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from semco.distributed.cluster import RayOptions
from semco.experiment.comparison import Cell, make_cells
from semco.experiment.engines import Engine
from semco.experiment.engines.local import LocalEngine
from semco.experiment.engines.ray_tasks import RayEngine
from semco.predict.images import Output, predict_into
from semco.predict.predictor import load
from semco.predict.ray_actors import Model, predict_parts

FILES = 500  # different photos


def bench_cluster(cells: int = 6, steps: int = 20, photos: int = 20_000, jobs: int = 2) -> dict[str, Any]:
    """Return the seconds per cell that are not training, the seconds per photo, and whether the models are equal."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        folder = Path(name)
        runs = {
            engine: make_cells(["supervised"], range(cells), folder / engine, values(steps))
            for engine in ("local", "ray")
        }
        engines: dict[str, Engine] = {"local": LocalEngine(jobs), "ray": RayEngine(RayOptions(cpus=1))}
        rows = {name: time_cells(engine, runs[name], jobs) for name, engine in engines.items()}
        pairs = zip(runs["local"], runs["ray"], strict=True)
        same = all(weights(one) == weights(other) for one, other in pairs)
        model = runs["local"][0].run.path
        predictions = time_predictions(model, write_photos(folder, photos), folder)
    return {"cells": {**rows, "same_models": same}, "photos": predictions}


def values(steps: int) -> dict[str, Any]:
    """Return a small run on the bundled images."""
    return {
        "data": {"source": "fashion-mini", "labels_per_class": 4},
        "model": {"backbone": "wrn-10-1", "pretrained": "none"},
        "training": {"steps": steps, "batch_size": 16, "mu": 1},
    }


def weights(cell: Cell) -> bytes:
    return (cell.run.model / "model.safetensors").read_bytes()


def time_cells(engine: Engine, cells: list[Cell], jobs: int) -> dict[str, float]:
    """Return wall time, and of it what a cell takes besides its training steps."""
    seconds = _seconds(lambda: engine.run(cells, lambda _: None, lambda *_: None))
    training = sum(cell.run.result().seconds for cell in cells)
    return {"wall_s": round(seconds, 1), "besides_steps_s_per_cell": round((seconds * jobs - training) / len(cells), 2)}


def write_photos(folder: Path, count: int) -> Path:
    """Write photos of 200 x 150 pixels and a list that names them again and again."""
    (folder / "photos").mkdir()
    random = np.random.default_rng(0)
    for number in range(FILES):
        pixels = random.integers(0, 256, (15, 20, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((200, 150)).save(folder / "photos" / f"{number}.jpg", quality=85)
    listed = folder / "list.txt"
    listed.write_text("".join(f"photos/{i % FILES}.jpg\n" for i in range(count)), encoding="utf-8")
    return listed


def time_predictions(model: Path, listed: Path, folder: Path) -> dict[str, float]:
    """Return milliseconds per photo of both engines; with Ray also its start, and without it for half of the photos."""
    count = len(listed.read_text(encoding="utf-8").splitlines())
    half = folder / "half.txt"
    half.write_text("\n".join(listed.read_text(encoding="utf-8").splitlines()[: count // 2]), encoding="utf-8")

    def on_ray(photos: Path, out: str) -> float:
        return _seconds(
            lambda: predict_parts(Output(folder / out), Model(model), [f"@{photos}"], RayOptions(), per_part=1024)
        )

    local = _seconds(
        lambda: predict_into(Output(folder / "local.parquet"), load(model, engine="torch"), [f"@{listed}"])
    )
    whole, part = on_ray(listed, "whole"), on_ray(half, "part")
    more = (whole - part) / (count - count // 2)
    return {
        "photos": count,
        "local_ms_per_photo": round(1000 * local / count, 3),
        "ray_ms_per_photo": round(1000 * whole / count, 3),
        "ray_ms_per_further_photo": round(1000 * more, 3),
        "ray_start_s": round(max(0.0, part - more * (count // 2)), 1),
    }


def _seconds(work: Callable[[], object]) -> float:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
