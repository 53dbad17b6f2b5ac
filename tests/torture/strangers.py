"""What strangers send: saved models with other numbers, ONNX graphs, and caches with links and pipes in them.

Descriptions of models are edited and sealed again, as their author could do.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from PIL import Image

import semco
from semco.config import ModelConfig
from semco.data.storage.chunks import LOCK, PROGRESS, Chunk, ChunkedFile
from semco.data.storage.folders import remove_oldest
from semco.errors import UserError
from semco.evaluation.model_file import ModelDescription, SavedModel, empty_network, save_model
from semco.predict.onnx import trial
from semco.run.seal import read_with_digest, write_with_digest
from torture import stranger_models
from torture.attack import Attack, Case, Failure
from torture.mutations import damage, edit_json

CLASSES = ("dog", "cat", "ship", "truck")
PHOTOS = np.arange(3 * 8 * 8 * 3, dtype=np.uint8).reshape(3, 8, 8, 3)
BACKBONES = ("wrn-999994-1", "wrn-28-2000", "wrn-28-64", "wrn-1000-64", "resnet50", "cnn-13", "efficientnet-lite2", "")
SIZES = (10**9, 10**5, 4096, 2**20, 2**63, 0, -1, 1, 2, 5, 1e300)
FIELDS = ("groups", "image_size", "embedding_dim", "mean", "std", "scale", "channels", "heads", "class_names")
GRAPHS = ("endless_loop", "much_memory", "other_rank")


def prepare(folder: Path) -> Path:
    torch.set_num_threads(1)
    trial.SECONDS = 4.0
    description = ModelDescription(
        class_names=CLASSES,
        image_size=(8, 8),
        channels=3,
        mean=(0.5,) * 3,
        std=(0.2,) * 3,
        model=ModelConfig(backbone="wrn-10-1"),
        heads=("one_hot", "semantic"),
        embedding_dim=4,
        scale=5.0,
        groups=(0, 0, 1, 1),
        eps=0.3,
    )
    save_model(folder / "model", SavedModel(description, empty_network(description), torch.eye(4)))
    stranger_models.write_model(folder / "model.onnx")
    semco.load(folder / "model").predict(PHOTOS)  # what is imported now need not be imported by every case
    return folder


def case(case: Case) -> str:
    kind, attack = case.random.choice(
        (("model", attack_model), ("model", attack_model), ("onnx", attack_onnx), ("cache", attack_cache),
         ("room", make_room))
    )  # fmt: skip
    os.environ["HOME"] = str(case.folder)  # ONNX Runtime keeps a number of this machine there
    try:
        attack(case)
    except UserError as error:
        if len(str(error)) > 2000:
            raise
        return f"{kind} refused"
    return f"{kind} right"


def attack_model(case: Case) -> None:
    folder = case.folder / "model"
    shutil.copytree(case.originals / "model", folder)
    values, random = read_with_digest(folder / "model.json"), case.random
    for _ in range(random.choice((1, 1, 2))):
        values = edited(random, values)
    if random.random() < 0.1:
        file = folder / random.choice(("model.safetensors", "labels.safetensors"))
        file.write_bytes(damage(random, file.read_bytes()))
        values["checksums"] = {}
    write_with_digest(folder / "model.json", values)
    check_answers(folder)


def edited(random: Random, values: dict[str, Any]) -> dict[str, Any]:
    """Return a description with one value changed, sometimes as an attacker would."""
    way = random.choice(("json", "size", "backbone", "architecture"))
    if way == "size":
        field, size = random.choice(FIELDS), random.choice(SIZES)
        count = len(values[field]) if isinstance(values.get(field), list) else 1
        return values | {field: random.choice((size, [size], [size] * count, [0] * (count - 1) + [size], []))}
    if way == "backbone":
        changed = {"backbone": random.choice(BACKBONES), "mlp_hidden": random.choice(SIZES)}
        return values | {"model": values.get("model", {}) | dict(random.sample(list(changed.items()), 1))}
    if way == "architecture":
        config = {"model_type": random.choice(("vit", "convnext", "swin", "resnet")), "hidden_size": 8}
        names = ("num_hidden_layers", "hidden_size", "depths", "image_size", "patch_size", "num_attention_heads")
        size = random.choice(SIZES)
        config |= {random.choice(names): random.choice((size, [size] * 4, 10**6))}
        processor = {"size": 8, "mean": [0.5] * 3, "std": [0.5] * 3}
        model = values.get("model", {}) | {"backbone": "hf:gone"}
        return values | {"model": model, "architecture": {"config": config, "processor": processor}}
    changed = json.loads(edit_json(random, json.dumps(values)))
    return changed if isinstance(changed, dict) else {}


def attack_onnx(case: Case) -> None:
    file, random = case.folder / "model.onnx", case.random
    way = random.choice(("whole", "graph", "about", "about", "damage", "damage", "kind"))
    if way == "whole":
        found = semco.load(case.originals / "model.onnx").predict_proba(PHOTOS)
        if not np.allclose(found, 1 / 3):
            raise Failure("a whole ONNX file predicts something else", str(found))
        return
    if way == "graph":
        nodes, constants = getattr(stranger_models, random.choice(GRAPHS))()
        stranger_models.write_model(file, nodes=nodes, constants=constants)
    elif way == "about":
        about = {**stranger_models.ABOUT, "classes": random.choice((3, 3, 3, 2, 4, 100))}
        field = random.choice(("class_names", "group_ids", "image_size", "channels", "head", "heads"))
        size = random.choice(SIZES)
        about[field] = random.choice((size, [size], [size] * 3, [], "semantic", ["semantic"], None, ["a"] * 3))
        stranger_models.write_model(file, **about)
    elif way == "damage":
        file.write_bytes(damage(random, (case.originals / "model.onnx").read_bytes()))
    else:
        random.choice((lambda: os.mkfifo(file), file.mkdir, lambda: file.symlink_to(case.outside / "victim.txt")))()
    check_answers(file)


def check_answers(path: Path) -> None:
    """Raise a failure unless a model that can be loaded predicts its classes, for arrays and for a photo."""
    predictor = semco.load(path, device="cpu")
    found = predictor.predict_proba(PHOTOS)
    if found.shape != (3, len(predictor.class_names)) or not np.isfinite(found).all():
        raise Failure("accepted: probabilities of another shape", f"{found.shape} for {predictor.class_names}")
    photo = path.parent / "photo.png"
    Image.fromarray(PHOTOS[0]).save(photo)
    answer = predictor.predict(photo)[0]
    if answer.error is not None or answer.label not in predictor.class_names:
        raise Failure("accepted: no answer", str(answer))


def array_in(folder: Path) -> ChunkedFile:
    return ChunkedFile(folder / "rows.u8", np.dtype(np.uint8), (50, 3), 8, "numbers", "use fewer")


def rows(number: int) -> Chunk:
    return Chunk(np.full((min(8, 50 - 8 * number), 3), number + 1, np.uint8))


def check_array(file: ChunkedFile) -> None:
    if file.finished() is None or file.data.read_bytes() != b"".join(rows(n).rows.tobytes() for n in range(7)):
        raise Failure("another array", str(file.data))


def attack_cache(case: Case) -> None:
    """Put something else in the place of a file of the cache, or of its folder, before or while it is used."""
    random, file = case.random, array_in(case.folder / "cache" / "key")
    if random.random() < 0.7:
        file.fill(rows, lambda *_: None)
    place = random.choice((file.folder, file.data, file.folder / LOCK, file.folder / PROGRESS))
    when = random.choice((None, *range(7)))

    def make(number: int) -> Chunk:
        if number == when:
            plant(random, case, place)
        return rows(number)

    if when is None:
        plant(random, case, place)
    try:
        file.fill(make, lambda *_: None)
        check_array(file)
    finally:
        remove_oldest(file.folder.parent, case.folder, 0)


def plant(random: Random, case: Case, place: Path) -> None:
    """Put a link, a pipe, a folder, other bytes or nothing in the place of a file or a folder."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    target = random.choice((case.outside / "victim.txt", case.outside, case.outside / "new"))
    random.choice(
        (
            lambda: place.symlink_to(target),
            lambda: os.mkfifo(place),
            place.mkdir,
            lambda: place.write_bytes(random.randbytes(20)),
            lambda: None,
        )
    )()


def make_room(case: Case) -> None:
    """Build arrays while somebody removes them; each build must end, and the last one stays."""
    root, done, errors = case.folder / "cache", threading.Event(), []

    def remove() -> None:
        try:
            while not done.is_set():
                remove_oldest(root, root, 0)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        for number in range(20):
            array_in(root / f"key-{number % 2}").fill(rows, lambda *_: None)
    finally:
        done.set()
        thread.join()
    if errors:
        raise errors[0]
    array_in(root / "key-0").fill(rows, lambda *_: None)
    check_array(array_in(root / "key-0"))


ATTACK = Attack("strangers", cases=600, minutes=2, case=case, prepare=prepare, limit=10.0, memory=512 << 20)
