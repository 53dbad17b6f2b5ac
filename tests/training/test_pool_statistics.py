"""Counts of pseudo-labels against a slow recount of the raw predictions, one image at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from semco.data.split import LABELLED, UNKNOWN
from semco.distributed.processes import Processes
from semco.training import pool_statistics
from semco.training.pool_statistics import (
    SLOTS,
    ClassHistory,
    ImageCounts,
    PoolStatistics,
    write_class_counts,
    write_image_counts,
)
from semco.types import PseudoLabels

GROUPS = torch.tensor([0, 0, 1, 2])
POOL, STEPS, UNLABELLED_PER_STEP, LOG_EVERY = 13, 40, 6, 10
Step = tuple[torch.Tensor, torch.Tensor, dict[str, PseudoLabels]]


def random_steps(heads: tuple[str, ...] = ("one_hot", "semantic")) -> list[Step]:
    """Steps on a pool so small that an image occurs several times among the steps that are counted together."""
    rng = np.random.default_rng(0)
    truth = torch.from_numpy(rng.integers(0, len(GROUPS), POOL))
    truth[0], truth[1] = LABELLED, UNKNOWN
    steps = []
    for _ in range(STEPS):
        index = torch.from_numpy(rng.choice(POOL, UNLABELLED_PER_STEP, replace=False))
        pseudo = {
            head: PseudoLabels(
                torch.from_numpy(rng.integers(0, len(GROUPS), UNLABELLED_PER_STEP)),
                torch.from_numpy(rng.integers(0, 2, UNLABELLED_PER_STEP).astype(np.float32)),
                torch.ones(UNLABELLED_PER_STEP),
            )
            for head in heads
        }
        steps.append((index, truth[index], pseudo))
    return steps


def counted(steps: list[Step], log_every: int = LOG_EVERY, early_steps: int = 10**9) -> PoolStatistics:
    statistics = PoolStatistics(GROUPS, POOL, early_steps)
    for number, (index, truth, pseudo) in enumerate(steps, start=1):
        statistics.add(pseudo, truth, index)
        if number % log_every == 0:
            statistics.end_line(number, Processes())
    return statistics


def slow_recount(steps: list[Step]) -> tuple[Counter[tuple[int, str, int, str]], dict[int, Counter[str]]]:
    """Count by (line, head, true class, what) and by image, from the definitions."""
    by_class: Counter[tuple[int, str, int, str]] = Counter()
    by_image: dict[int, Counter[str]] = defaultdict(Counter)
    for number, (index, truth, pseudo) in enumerate(steps):
        line = (number // LOG_EVERY + 1) * LOG_EVERY
        for u in range(len(index)):
            image, true = int(index[u]), int(truth[u])
            if true == LABELLED:
                continue
            by_image[image]["seen"] += 1
            kept = {head: int(p.class_ids[u]) for head, p in pseudo.items() if p.weights[u] > 0}
            for head in (*pseudo, "ensemble"):
                labels = [kept[head]] if head in kept else list(kept.values()) if head == "ensemble" else []
                by_class[line, head, true, "images"] += 1
                by_class[line, head, true, "retained"] += bool(labels)
                if labels and true >= 0:
                    right = [label == true for label in labels]
                    right_group = [bool(GROUPS[label] == GROUPS[true]) for label in labels]
                    by_class[line, head, true, "correct"] += sum(right) / len(right)  # type: ignore[assignment]
                    by_class[line, head, true, "correct_group"] += sum(right_group) / len(right_group)  # type: ignore[assignment]
            by_class[line, "ensemble", true, "both"] += len(kept) == 2
            by_class[line, "ensemble", true, "disagreement"] += len(set(kept.values())) == 2
            for head in kept:
                by_image[image][f"retained_{head}"] += 1
            for label in set(kept.values()):
                by_image[image][f"wrong {label}"] += true not in (label, UNKNOWN)
    return by_class, by_image


def test_tables_equal_a_slow_recount(tmp_path: Path) -> None:
    steps = random_steps()
    statistics, (by_class, by_image) = counted(steps), slow_recount(steps)
    write_class_counts(tmp_path / "classes.parquet", statistics.history)
    rows = pq.read_table(tmp_path / "classes.parquet").to_pylist()
    assert len(rows) == STEPS // LOG_EVERY * 3 * (len(GROUPS) + 1)
    names = ("images", "retained", "correct", "correct_group", "both", "disagreement")
    for row in rows:
        key = row["step"], row["head"], row["class_id"]
        assert [row[name] for name in names] == [by_class[*key, name] for name in names], key
    assert sum(row["disagreement"] for row in rows) > 0

    truth = torch.full((POOL,), UNKNOWN)
    for index, known, _ in steps:
        truth[index] = known
    write_image_counts(tmp_path / "images.parquet", np.arange(POOL) + 100, truth.numpy(), statistics.images)
    images = pq.read_table(tmp_path / "images.parquet").to_pylist()
    assert [row["index"] for row in images] == list(range(101, 100 + POOL))  # the labelled image is left out
    for row in images:
        own = by_image[row["index"] - 100]
        assert row["seen"] == own["seen"]
        assert [row["retained_one_hot"], row["retained_semantic"]] == [
            own["retained_one_hot"],
            own["retained_semantic"],
        ]
        found = [(row[f"wrong_{k}"], row[f"wrong_{k}_count"]) for k in (1, 2, 3)]
        assert all(count == own[f"wrong {label}"] for label, count in found if label >= 0)
        expected = sorted((own[f"wrong {label}"] for label in range(len(GROUPS))), reverse=True)[:3]
        assert [count for _, count in found] == expected


def test_one_head_has_no_ensemble(tmp_path: Path) -> None:
    write_class_counts(tmp_path / "classes.parquet", counted(random_steps(("one_hot",))).history)
    assert pq.read_table(tmp_path / "classes.parquet")["head"].unique().to_pylist() == ["one_hot"]


@pytest.mark.parametrize("early_steps", [9, 35, 100])
@pytest.mark.parametrize("interrupted_after", [7, 10, 33])
def test_counts_survive_saving_at_any_step(interrupted_after: int, early_steps: int) -> None:
    steps, alone = random_steps(), Processes()
    whole = counted(steps, early_steps=early_steps)
    first, second = (PoolStatistics(GROUPS, POOL, early_steps) for _ in range(2))
    for number, (index, truth, pseudo) in enumerate(steps, start=1):
        part = first if number <= interrupted_after else second
        part.add(pseudo, truth, index)
        if number % LOG_EVERY == 0:
            part.end_line(number, alone)
        if number == interrupted_after:
            second.load({name: tensor.clone() for name, tensor in first.state(alone).items()}, alone)
    states = [each.state(alone) for each in (whole, second)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_soft_weights_are_fractions() -> None:
    """Weights 0.25 and 1 of two classes: the ensemble retains 1, of which 0.8 is right."""
    pseudo = {
        "one_hot": PseudoLabels(torch.tensor([0]), torch.tensor([0.25]), torch.ones(1)),
        "semantic": PseudoLabels(torch.tensor([2]), torch.tensor([1.0]), torch.ones(1)),
    }
    statistics = PoolStatistics(GROUPS)
    statistics.add(pseudo, torch.tensor([2]), None)
    table = statistics.end_line(1, Processes())[:, 2] / 1000
    assert table[0].tolist() == [1, 0.25, 0, 0, 0, 0]
    assert table[1].tolist() == [1, 1, 1, 1, 0, 0]
    assert table[2].tolist() == [1, 1, 0.8, 0.8, 0.25, 0.25]
    assert statistics.history.steps == []  # a pool of unknown size is not kept


def test_wrong_classes_beyond_the_slots_are_upper_bounds() -> None:
    images = ImageCounts.empty(1)
    given = [7] * 5 + [8] * 4 + list(range(20, 20 + SLOTS))
    images.add_wrong(np.zeros(len(given), int), np.array(given))
    classes, counts = images.top(2)
    assert (classes.tolist(), counts.tolist()) == ([[7, 8]], [[5, 4]])
    assert images.wrong_count.sum() == len(given)


def test_counts_of_two_processes_are_those_of_one() -> None:
    steps = random_steps()
    whole = counted(steps).images
    parts = [ImageCounts.empty(POOL), ImageCounts.empty(POOL)]
    for index, truth, pseudo in steps:
        labels = np.stack([p.class_ids.numpy() for p in pseudo.values()])
        weights = np.stack([p.weights.numpy() for p in pseudo.values()])
        for rank, part in enumerate(parts):
            own = slice(3 * rank, 3 * rank + 3)
            part.add(index.numpy()[own], truth.numpy()[own], labels[:, own], weights[:, own])
    parts[0].merge(parts[1])
    assert (parts[0].seen == whole.seen).all()
    assert (parts[0].retained == whole.retained).all()
    assert (parts[0].top(SLOTS)[1] == whole.top(SLOTS)[1]).all()


def test_long_runs_keep_a_bounded_number_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_statistics, "MOST_LINES", 6)
    steps = random_steps()
    long, short = counted(steps, log_every=3), counted(steps, log_every=39)
    assert len(long.history.steps) <= 6
    assert long.history.steps[-1] == 39
    assert (np.sum(long.history.tables, axis=0) == np.sum(short.history.tables, axis=0)).all()


def test_images_are_counted_in_the_first_epochs_only() -> None:
    steps = random_steps()
    some, first = counted(steps, early_steps=21).images, counted(steps[:21], log_every=3).images
    assert (some.seen == first.seen).all()
    assert (some.wrong_count == first.wrong_count).all()
    assert counted(steps).images.seen.sum() > some.seen.sum()


def test_a_run_of_the_papers_length_keeps_its_first_epochs_as_they_were_logged() -> None:
    """307,200 steps with a line every 200: figures of the first 10 epochs (10,240 steps) have all their lines."""
    history, table = ClassHistory(early_steps=10_240), np.ones((3, 3, 6), np.int64)
    for step in range(200, 307_201, 200):
        history.append(step, table)
    early = [step for step in history.steps if step <= 10_240]
    assert early == list(range(200, 10_201, 200))
    assert len(history.steps) <= pool_statistics.MOST_LINES
    assert history.steps[-1] == 307_200
    assert np.sum(history.tables, axis=0)[0, 0, 0] == 307_200 // 200  # nothing is lost
    later = np.diff(history.steps[len(early) :])
    assert later.max() <= 4 * later.min()


def test_very_fine_lines_of_the_first_epochs_are_bounded_too() -> None:
    history, table = ClassHistory(early_steps=10_240), np.ones((3, 3, 6), np.int64)
    for step in range(1, 20_001):
        history.append(step, table)
    assert len(history.steps) <= pool_statistics.MOST_LINES
    assert sum(step <= 10_240 for step in history.steps) > 100
