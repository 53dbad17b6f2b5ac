"""Made-up run folders, as written by a finished run or by one that was killed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from semco.evaluation.results import evaluate_probabilities, write_evaluation
from semco.evaluation.samples import pick_samples
from semco.run.seal import write_with_digest

NAMES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
TERMS = ("t_shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
ROUTES = ("exact",) * 9 + ("head noun",)
GROUPS = (0, 1, 0, 2, 0, 3, 0, 3, 4, 3)
HEADS = {
    "semco_plus": ("one_hot", "semantic"),
    "semco": ("one_hot", "semantic"),
    "fixmatch": ("one_hot",),
    "supervised": (),
}
FINAL = {"semco_plus": 0.83, "semco": 0.81, "fixmatch": 0.74, "supervised": 0.63}
MakeRun = Callable[..., Path]


def _noise(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def metric_lines(method: str, seed: int, steps: int, every: int = 20) -> list[dict[str, Any]]:
    """Return lines of metrics that look like those of a real run, with a little noise."""
    noise = _noise(seed)
    lines: list[dict[str, Any]] = []
    for step in range(every, steps + 1, every):
        done = 1 - math.exp(-3 * step / steps)
        line: dict[str, Any] = {
            "step": step,
            "seconds": 0.15 * step,
            "epoch": step / 64,
            "lr": 0.03 * (1 - step / steps),
        }
        line |= {"loss": 3 - 2 * done, "loss/supervised_one_hot": 2.3 * (1 - done) + 0.05 * noise.random()}
        if "semantic" in HEADS[method]:
            line |= {"loss/supervised_semantic": 0.9 * (1 - done), "loss/cotraining_one_hot": 0.5 * done * (1.2 - done)}
        for i, head in enumerate(HEADS[method]):
            line |= _pseudo(f"pseudo/{head}", done, i, noise)
            line[f"mask_{head}"] = line[f"pseudo/{head}/ratio"]
        if step % (5 * every) == 0:
            line["validation_accuracy"] = 0.1 + (FINAL[method] - 0.1) * done + 0.02 * noise.random()
        lines.append(line)
    return lines


def _pseudo(key: str, done: float, head: int, noise: np.random.Generator) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for suffix, shift in (("", 0.0), ("/grouped", -0.1), ("/ungrouped", 0.12)):
        ratio = max(0.0, done * (0.6 + 0.15 * head) + shift * done + 0.03 * noise.random())
        values[f"{key}/ratio{suffix}"] = ratio
        values[f"{key}/accuracy{suffix}"] = None if done < 0.2 else 0.55 + 0.25 * done + shift + 0.02 * noise.random()
        values[f"{key}/group_accuracy{suffix}"] = None if done < 0.2 else min(1.0, 0.7 + 0.2 * done)
    return values


def fake_images(truth: np.ndarray, size: int = 28) -> torch.Tensor:
    """Return grey images, one pattern per class."""
    rows, columns = np.mgrid[:size, :size] / (size - 1)
    patterns = [np.sin((t + 2) * rows * 3) * np.cos((t % 4 + 1) * columns * 3) for t in range(truth.max() + 1)]
    return torch.tensor(np.stack(patterns).clip(0, 1)[truth, None] * 255, dtype=torch.uint8)


def fake_scores(truth: np.ndarray, accuracy: float, groups: tuple[int, ...], seed: int) -> np.ndarray:
    """Return probabilities whose mistakes are mostly within a group."""
    noise = _noise(seed)
    logits = noise.normal(size=(len(truth), len(groups)))
    same = np.equal.outer(truth, np.arange(len(groups))) * 1.0
    near = np.asarray(groups)[truth][:, None] == np.asarray(groups)[None]
    logits += 2.2 * accuracy * same + 1.6 * near
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def _write_labels(folder: Path, names: tuple[str, ...]) -> None:
    labels = {"names": names, "terms": TERMS, "routes": ROUTES, "source": "bundled store (128-d, 38,000 terms)"}
    labels |= {"eps": 0.2, "groups": GROUPS, "scale": 14.2}
    write_with_digest(folder / "labels.json", labels)


def _write_result(folder: Path, method: str, seed: int, steps: int, names: tuple[str, ...]) -> None:
    truth = np.arange(1000) % len(names)
    scores = fake_scores(truth, FINAL[method], GROUPS, seed)
    evaluation = evaluate_probabilities(scores, truth, names, np.asarray(GROUPS))
    write_evaluation(folder, evaluation, pick_samples(fake_images(truth), scores, truth))
    result = {"method": method, "num_labels": 40, "steps": steps, "seconds": 0.15 * steps, "run": str(folder)}
    write_with_digest(folder / "result.json", result | evaluation.summary())


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """``make_run(method, seed, killed_at=None, names=NAMES, config={})`` returns the folder of a made-up run."""

    def make(
        method: str = "semco",
        seed: int = 0,
        killed_at: int | None = None,
        names: tuple[str, ...] = NAMES,
        config: dict[str, Any] | None = None,
        steps: int = 1000,
    ) -> Path:
        folder = tmp_path / f"{method}-{seed}-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        values = {
            "data": {"source": "fashion-mini", "labels_per_class": 4},
            "method": {"name": method},
            "training": {"steps": steps, "seed": seed, "batch_size": 64},
        }
        for section, fields in (config or {}).items():
            values[section] = {**values.get(section, {}), **fields}  # type: ignore[dict-item]
        (folder / "config.yaml").write_text(yaml.safe_dump(values))
        _write_labels(folder, names)
        lines = [json.dumps(line) for line in metric_lines(method, seed, steps)]
        if killed_at is None:
            (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
            _write_result(folder, method, seed, steps, names)
        else:
            kept = lines[: killed_at // 20]
            (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in kept) + lines[-1][:37])
        return folder

    return make
