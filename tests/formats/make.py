"""Writes the files that a later version of SemCo has to read, one small folder per format: tests/formats/1.

    python -m tests.formats.make /kept && mv /kept tests/formats/1

Run it once, when a format gets a new number (docs/versions.md), and commit the folder. An older folder is never made
again: it is what users have. Runs hold the path of their data, /kept/photos; the test puts another in its place.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image

from semco.config import configure
from semco.experiment import train
from semco.files import write_text
from semco.labels.store import VectorStore
from semco.predict.predictor import load
from semco.studio.journal.class_table import ClassTable
from semco.studio.journal.journal import Journal
from semco.training.observer import NullObserver
from semco.training.signals import Interrupted
from tests.tiny_backbone import add_tiny_backbone

COLOURS = {"cat": (200, 60, 40), "dog": (40, 180, 70), "car": (50, 70, 210)}
VALUES = {
    "data": {"source": "photos", "labels_per_class": 2, "image_size": 8},
    "labels": {"source": "store", "path": "store", "eps": 0.3},
    "model": {"backbone": "tiny"},
    "method": {"name": "semco_plus"},
    "training": {"steps": 6, "batch_size": 4, "mu": 1, "checkpoint_every": 3, "device": "cpu", "precision": "float32"},
}


def make_photos() -> None:
    """Write six training photos and one test photo per class, each of its colour with noise."""
    noise = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        for part, count in (("train", 6), ("test", 1)):
            folder = Path("photos", part, name)
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = np.clip(np.array(colour) + noise.normal(0, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")


def make_runs() -> None:
    """Write a finished run, and one that stopped after its checkpoint at step 3."""

    class Stop(NullObserver):
        def on_step(self, step: int) -> None:
            if step == 4:
                raise Interrupted(2, step, Path("stopped"))

    train(configure(options=VALUES), Path("finished"))
    with suppress(Interrupted):
        train(configure(options=VALUES), Path("stopped"), Stop())
    shutil.rmtree("finished/checkpoints")  # those of the other run are enough
    for file in (*Path().glob("*/report.html"), *Path().glob("*/.lock")):
        file.unlink()


def make_journal() -> None:
    """Write a journal in which two classes are added, three photos labelled and one label is taken back."""
    Path("journal").mkdir()
    journal = Journal(Path("journal"))
    journal.set_classes(ClassTable().add("cat", "dog").to_plain())
    journal.label({"a.png": 1})
    journal.label({"b.png": 2, "c.png": 1})
    journal.undo(seq=journal.label({"a.png": 2}).seq)
    journal.close()


def answers() -> dict[str, object]:
    """Return what the files say, as the version that wrote them read it."""
    predictor, store = load(Path("finished")), VectorStore.open(Path("store"))
    photos = sorted(Path("photos/test").glob("*/*.png"))
    predictions = [(each.label, round(each.confidence, 4)) for each in predictor.predict(photos)]
    journal = Journal(Path("journal"))
    table, labels = ClassTable.from_plain(journal.classes()), journal.labels()
    journal.close()
    split = json.loads(Path("finished/split.json").read_text(encoding="utf-8"))
    return {
        "predictions": predictions,
        "labelled": split["labelled"],
        "accuracy": json.loads(Path("finished/result.json").read_text(encoding="utf-8"))["test_accuracy"],
        "nearest": [term for term, _ in store.nearest(store.vector("cat"), 3)],
        "studio_classes": table.names,
        "studio_labels": labels,
    }


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir()
    os.chdir(folder)
    add_tiny_backbone()
    make_photos()
    angles = np.deg2rad([0, 20, 180, 270])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    VectorStore.write(Path("store"), ("cat", "dog", "car", "tree"), vectors, range(4), {"default_eps": 0.05})
    make_runs()
    make_journal()
    write_text(Path("answers.json"), json.dumps(answers(), indent=1))


if __name__ == "__main__":
    main()
