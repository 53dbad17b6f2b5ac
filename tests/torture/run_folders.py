"""Damaged run folders: resume, evaluate, predict and report give the right result or refuse in one sentence."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image

from semco.config import configure
from semco.evaluation.run import evaluate_run
from semco.experiment import resume, train
from semco.predict.images import predict_images
from semco.report import summary_table, write_report
from semco.training.observer import NullObserver
from semco.training.signals import Interrupted
from torture.attack import Attack, Case, Failure
from torture.kills import metrics
from torture.mutations import NASTY_JSON, damage, edit_json, nearby, write_text
from torture.originals import small_arrays, small_images, small_values, write_data

STEPS = 12
HEADS = (None, "semantic", "average")
BAD_LINES = (
    b"\xff\xfe\xfd", b"[]", b"{}", b"5", b"null", b'{"step": "x"}', b'{"step": null}', b'{"step": 1e999}', b"{",
    b'{"step": 3}', b'{"step": 3, "loss": "x"}', b'{"step": NaN}', b'{"step": [1]}', b"[" * 100_000, b"9" * 6000,
    b'{"step": 4, "loss": {}}', b'{"step": true}', b'{"step": 2, "pseudo/one_hot/ratio": []}',
)  # fmt: skip
# Of several damaged files, the first of these is named as the cause of a silent change.
DECISIVE = ("the data", "the label", "split", "labels", "config", "checkpoints", "model", "result")


@dataclass(frozen=True)
class Originals:
    """Undamaged run folders in several states, and what each command gives for them."""

    folder: Path
    result: dict[str, Any]
    metrics: list[dict[str, Any]]
    weights: bytes
    evaluations: dict[str | None, Any]
    predictions: dict[str | None, Any]


class Stop(NullObserver):
    """Stops a run after a step, as a kill would."""

    def __init__(self, step: int, run: Path) -> None:
        self._step, self._run = step, run

    def on_step(self, step: int) -> None:
        if step == self._step:
            raise Interrupted(2, step, self._run)


def prepare(folder: Path) -> Originals:
    torch.set_num_threads(1)
    write_data(folder)
    (folder / "photos").mkdir()
    for i, image in enumerate(small_images(2, seed=2)[0]):
        Image.fromarray(image).save(folder / "photos" / f"{i}.png")
    values = small_values(folder, STEPS)
    train(configure(options=values), folder / "finished")
    for name, step in (("interrupted", 9), ("early", 3)):
        interrupt(values, folder / name, step)
    interrupt({**values, "training": {**values["training"], "seed": 1}}, folder / "foreign", 9)
    run = folder / "finished"
    return Originals(
        folder,
        without_clock(resume(run)),
        metrics(run),
        (run / "model" / "model.safetensors").read_bytes(),
        {head: evaluation_of(run, head) for head in HEADS},
        {head: predictions_of(run, folder, head) for head in HEADS},
    )


def interrupt(values: dict[str, Any], run: Path, step: int) -> None:
    try:
        train(configure(options=values), run, Stop(step, run))
    except Interrupted:
        return
    raise AssertionError("the run was not interrupted")


def without_clock(result: Any) -> dict[str, Any]:
    return {**result.model_dump(), "seconds": None, "run": None}


def evaluation_of(run: Path, head: Any) -> Any:
    return evaluate_run(run, head, device="cpu").summary()


def predictions_of(run: Path, folder: Path, head: Any) -> Any:
    rows = predict_images(run, [folder / "photos"], head, device="cpu").rows
    return [{**asdict(row), "path": Path(row.path).name} for row in rows]


def case(case: Case) -> str:
    random, originals = case.random, case.originals
    state = random.choice(("finished", "finished", "finished", "interrupted", "interrupted", "early"))
    run = copy_run(originals.folder, state, case.folder)
    damaged: list[str] = []
    for _ in range(random.choice((1, 1, 1, 2))):
        damaged.append(damage_something(random, run, case, damaged))
    commands = (check_resume, check_report, check_evaluation, check_predictions)
    command = random.choice(commands if state == "finished" else commands[:1] * 3 + commands[1:2])
    command(case, run, state, damaged)
    return "right"


def copy_run(originals: Path, state: str, folder: Path) -> Path:
    """Copy a run, its images and label vectors; moved data is no damage."""
    run = folder / "run"
    shutil.copytree(originals / state, run)
    for name in ("data.npz", "vectors.npy"):
        shutil.copy(originals / name, folder / name)
    config = run / "config.yaml"
    config.write_text(config.read_text().replace(str(originals), str(folder)))
    return run


def check_resume(case: Case, run: Path, state: str, damaged: list[str]) -> None:
    originals = case.originals
    result = without_clock(resume(run))
    check_same(result == originals.result, "resume returned another result", damaged)
    if state != "finished":
        weights = (run / "model" / "model.safetensors").read_bytes()
        check_same(weights == originals.weights, "resume gave other weights", damaged)
        if "metrics.jsonl" not in damaged:
            check_same(metrics(run) == originals.metrics, "resume gave other metrics", damaged)


def check_evaluation(case: Case, run: Path, _state: str, damaged: list[str]) -> None:
    head = case.random.choice(HEADS)
    check_same(evaluation_of(run, head) == case.originals.evaluations[head], "evaluate gave other numbers", damaged)


def check_predictions(case: Case, run: Path, _state: str, damaged: list[str]) -> None:
    head = case.random.choice(HEADS)
    found = predictions_of(run, case.originals.folder, head)
    check_same(found == case.originals.predictions[head], "predict gave other answers", damaged)


def check_report(_case: Case, run: Path, _state: str, damaged: list[str]) -> None:
    page = write_report([run], run.parent / "page.html")
    summary_table([run])
    check_same("</html>" in page.read_text(encoding="utf-8"), "report wrote half a page", damaged)


def check_same(same: bool, what: str, damaged: list[str]) -> None:
    if not same:
        decisive = next((name for part in DECISIVE for name in damaged if name.startswith(part)), damaged[0])
        raise Failure(f"silently accepted: {what} after damage to {decisive.partition('/step')[0]}", ", ".join(damaged))


def damage_something(random: Random, run: Path, case: Case, damaged: Sequence[str]) -> str:
    """Damage a file of the run, its images or its label vectors, and return its name within the run.

    Files that are damaged already are left alone.
    """
    if random.random() < 0.1:
        return damage_data(random, run.parent)
    names = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    often = ("split.json", "labels.json", "config.yaml", "metrics.jsonl", ".lock")
    path = run / random.choice([name for name in (*names, *often) if name not in damaged])
    edits = [edit for edit, fits in EDITS if fits(path)]
    edit = random.choice(edits) if edits and path.is_file() and random.random() < 0.5 else random.choice(ANY_FILE)
    edit(random, path, case)
    return str(path.relative_to(run))


def damage_data(random: Random, folder: Path) -> str:
    """Change one value of the images, labels or label vectors, in files that can be read."""
    if random.random() < 0.3:
        vectors = np.load(folder / "vectors.npy")
        vectors[random.randrange(4), random.randrange(4)] += 0.1
        np.save(folder / "vectors.npy", vectors)
        return "the label vectors"
    arrays = small_arrays()
    name = random.choice(("x_train", "x_test", "y_train", "y_test"))
    place = tuple(random.randrange(size) for size in arrays[name].shape)
    arrays[name][place] = (int(arrays[name][place]) + 1) % (256 if name.startswith("x") else 4)
    np.savez(folder / "data.npz", **arrays)
    return f"the data ({name})"


# Each of these takes the random generator, a file and the case.
Edit = Callable[[Random, Path, Case], None]


def damage_bytes(random: Random, path: Path, _case: Case) -> None:
    content = path.read_bytes() if path.is_file() else b""
    clear(path)
    path.write_bytes(damage(random, content))


def delete(_random: Random, path: Path, _case: Case) -> None:
    clear(path)


def make_folder(_random: Random, path: Path, _case: Case) -> None:
    clear(path)
    path.mkdir()


def make_pipe(_random: Random, path: Path, _case: Case) -> None:
    clear(path)
    os.mkfifo(path)


def make_dangling_link(_random: Random, path: Path, case: Case) -> None:
    clear(path)
    path.symlink_to(case.outside / "nothing")


def make_outside_link(_random: Random, path: Path, case: Case) -> None:
    clear(path)
    path.symlink_to(case.outside / "victim.txt")


def make_loop(_random: Random, path: Path, _case: Case) -> None:
    clear(path)
    path.symlink_to(path.name)


def swap(random: Random, path: Path, case: Case) -> None:
    """Put the file of another run, or another file of this run, in its place."""
    relative = path.relative_to(case.folder / "run")
    foreign = case.originals.folder / "foreign" / relative
    others = [p for p in sorted((case.originals.folder / "finished").rglob("*")) if p.is_file()]
    source = foreign if foreign.is_file() and random.random() < 0.6 else random.choice(others)
    clear(path)
    shutil.copy(source, path)


def put_json(random: Random, path: Path, _case: Case) -> None:
    clear(path)
    write_text(path, random.choice(NASTY_JSON))


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def change_json(random: Random, path: Path, _case: Case) -> None:
    write_text(path, edit_json(random, path.read_text(encoding="utf-8", errors="replace")))


def change_split(random: Random, path: Path, _case: Case) -> None:
    """Label or hold out other images than the run did."""
    split = json.loads(path.read_text())
    way = random.choice(("validation is labelled", "another image", "one fewer", "twice"))
    if way == "validation is labelled":
        split["validation"] = list(split["labelled"])
    elif way == "another image":
        split["labelled"][0] = next(i for i in range(160) if i not in split["labelled"] + split["validation"])
    elif way == "one fewer":
        split["labelled"].pop()
    else:
        split["labelled"][1] = split["labelled"][0]
    path.write_text(json.dumps(split))


def change_config(random: Random, path: Path, _case: Case) -> None:
    """Change one field of the configuration."""
    config = yaml.safe_load(path.read_text())
    section = config[random.choice(sorted(config))]
    key = random.choice(sorted(section))
    section[key] = nearby(random, section[key])
    path.write_text(yaml.safe_dump(config, sort_keys=False))


def flip_bit(random: Random, path: Path, _case: Case) -> None:
    """Change one bit in the second half of a file of tensors, where the numbers are."""
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content) // 2, len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(bytes(content))


def change_lines(random: Random, path: Path, _case: Case) -> None:
    """Put foreign lines among those of metrics.jsonl."""
    lines = path.read_bytes().splitlines()
    for _ in range(random.choice((1, 1, 3))):
        lines.insert(random.randrange(len(lines) + 1), random.choice(BAD_LINES))
    path.write_bytes(b"\n".join(lines) + b"\n")


ANY_FILE: tuple[Edit, ...] = (
    *(damage_bytes,) * 10, *(delete,) * 3, *(put_json,) * 3, *(swap,) * 3, make_folder, make_folder, make_dangling_link,
    make_outside_link, make_loop, make_pipe,
)  # fmt: skip
EDITS: tuple[tuple[Edit, Callable[[Path], bool]], ...] = (
    (change_json, lambda path: path.suffix == ".json"),
    (change_split, lambda path: path.name == "split.json"),
    (change_config, lambda path: path.name == "config.yaml"),
    (flip_bit, lambda path: path.suffix == ".safetensors"),
    (change_lines, lambda path: path.suffix == ".jsonl"),
)

ATTACK = Attack("run-folders", cases=1000, minutes=6, case=case, prepare=prepare, limit=15, memory=1 << 30)
