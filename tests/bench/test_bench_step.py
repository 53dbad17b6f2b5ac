"""The measurement of a step: what it measures, and that what it compares is the same computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from semco.bench import step as bench
from semco.bench.rehearsal import Setting, pictures, rehearse
from semco.bench.step import AROUND, QUICK, Script, compare_ways, parts_of_a_step, profile, ways_of
from semco.bench.worker import Took, best_of, take_turns
from semco.models.activation import Block
from semco.training.forward import NetworkForward
from semco.training.loop import Silent


class Enough(Exception):  # noqa: N818 (nothing is wrong)
    """So many steps were seen."""


class Losses(Silent):
    """Keeps the loss of each of ``count`` steps, then ends the run."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seen: list[float] = []

    def on_line(self, line: Mapping[str, float | None]) -> None:
        self.seen.append(float(line["loss"] or 0.0))
        if len(self.seen) == self.count:
            raise Enough


def losses(setting: Setting, folder: Path, count: int = 3) -> list[float]:
    observer = Losses(count)
    with pytest.raises(Enough):
        rehearse(setting, folder, observer).run()
    return observer.seen


def test_without_normalisation_every_way_gives_the_authors_losses(tmp_path: Path) -> None:
    """With it the joint pass normalises all views as one batch, which is what it is for."""
    ways = ways_of(replace(QUICK, norm="none"), compiled=False)
    assert len(ways) == 5
    authors, *others = (losses(way, tmp_path / name) for name, way in ways.items())
    for other in others:
        assert other == pytest.approx(authors, abs=1e-4)


def test_the_memory_format_changes_no_loss(tmp_path: Path) -> None:
    rows, last = (losses(way, tmp_path / name) for name, way in list(ways_of(QUICK).items())[1:3])
    assert last == pytest.approx(rows, abs=1e-4)
    joint = losses(ways_of(QUICK)["authors"], tmp_path / "joint")
    assert joint != pytest.approx(rows, abs=1e-4)


def test_the_ways_differ_in_what_they_say(tmp_path: Path) -> None:
    authors = ways_of(QUICK)["authors"]
    batch, _ = rehearse(authors, tmp_path, Silent()).batches.batch(0)
    assert batch.unlabelled.strong[0].is_contiguous()
    assert authors.config().training.target_views == "joint"
    ours = ways_of(QUICK)["compiled"].config().training
    assert (ours.target_views, ours.compile) == ("no_grad", "on")
    small = rehearse(ways_of(QUICK)["maps made again"], tmp_path / "again", Silent())
    large = rehearse(ways_of(QUICK)["memory kept"], tmp_path / "kept", Silent())
    for trainer, expected in ((small, True), (large, False)):
        assert {part.recompute for part in trainer.network.modules() if isinstance(part, Block)} == {expected}


def test_ratios_belong_to_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(settings: Mapping[str, Setting], repeats: int, threads: int) -> dict[str, dict[str, float]]:
        assert (repeats, threads) == (5, 2)
        steps = {
            "authors": 8.0,
            "targets without gradient": 4.0,
            "channels last": 3.2,
            "memory kept": 3.2,
            "maps made again": 3.2,
            "compiled": 2.5,
        }
        return {
            name: {
                "cpu_s": steps[name],
                "wall_s": steps[name] / 2,
                "median_wall_s": 1 + steps[name],
                "first_cpu_s": 20.0,
                "memory_mb": 100 * steps[name],
            }
            for name in settings
        }

    monkeypatch.setattr(bench, "take_turns", pretend)
    measured = compare_ways(QUICK, threads=2, repeats=5)
    assert [way["times_faster"] for way in measured.values()] == [1.0, 2.0, 2.5, 2.5, 2.5, 3.2]
    assert [way["times_faster_by_the_clock"] for way in measured.values()] == [1.0, 2.0, 2.5, 2.5, 2.5, 3.2]
    assert [way["times_faster_usually"] for way in measured.values()] == [1.0, 1.8, 2.14, 2.14, 2.14, 2.57]
    assert [way["memory_ratio"] for way in measured.values()] == [1.0, 0.5, 0.4, 0.4, 0.4, 0.31]
    assert measured["compiled"]["pays_after_steps"] == 0


def test_a_worker_answers_step_by_step(tmp_path: Path) -> None:
    measured = take_turns({"one": QUICK}, repeats=1, threads=1)["one"]
    assert measured["loss"] == pytest.approx(losses(QUICK, tmp_path, 1)[0], abs=1e-4)
    assert measured["cpu_s"] > 0
    assert measured["memory_mb"] > 0
    assert measured["first_wall_s"] > measured["wall_s"]


def test_parts_of_a_step_add_up() -> None:
    measured = profile(QUICK, threads=1, repeats=1)
    parts = measured["parts_ms"]
    assert set(parts) == {"network", *AROUND}
    assert all(value > 0 for value in parts.values())
    assert sum(measured["parts_percent"].values()) == pytest.approx(100, abs=0.1)
    around = sum(measured["parts_percent"][name] for name in AROUND)
    assert measured["around_percent"] == pytest.approx(around, abs=0.1)


def test_a_script_says_what_the_network_said(tmp_path: Path) -> None:
    trainer = rehearse(replace(QUICK, norm="none"), tmp_path, Silent())
    forward = NetworkForward(trainer.network, trainer.average)
    batch, _ = trainer.batches.batch(0)
    labelled, targets = batch.labelled.weak[0], {"weak": batch.unlabelled.weak[0]}
    script, said = Script(forward), forward(labelled=labelled, no_grad=targets)
    for _ in range(2):
        repeated = script(labelled=labelled, no_grad=targets)
        torch.testing.assert_close(repeated["weak"].logits, said["weak"].logits)
    assert repeated["labelled"].logits.is_leaf
    assert repeated["labelled"].logits.requires_grad
    assert not repeated["weak"].logits.requires_grad


def test_the_parts_do_what_they_are_called(tmp_path: Path) -> None:
    trainer = rehearse(QUICK, tmp_path, Silent())
    before = [p.detach().clone() for p in trainer.network.parameters()]
    parts = parts_of_a_step(QUICK, trainer)
    assert all(p.grad is not None for p in trainer.network.parameters())
    parts["optimiser"]()
    assert not all(torch.equal(a, b) for a, b in zip(before, trainer.network.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.average.parameters(), strict=True))
    parts["average"]()
    assert not all(torch.equal(a, b) for a, b in zip(before, trainer.average.parameters(), strict=True))


def test_methods_are_compared_at_each_number_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Setting] = {}

    def pretend(settings: Mapping[str, Setting], repeats: int, threads: int) -> dict[str, dict[str, float]]:
        assert (repeats, threads) == (3, 2)
        seen.update(settings)
        return {name: {"cpu_s": 2.0 + 0.1 * (s.method == "semco")} for name, s in settings.items()}

    monkeypatch.setattr(bench, "take_turns", pretend)
    compared = bench.compare_methods(QUICK, (6, 200), threads=2, repeats=3)
    assert list(compared) == ["6", "200"]
    assert [row["above_percent"] for row in compared.values()] == [5.0, 5.0]
    assert {(s.method, s.classes) for s in seen.values()} == {(m, k) for m in ("fixmatch", "semco") for k in (6, 200)}


def test_the_cost_of_compiling_in_steps() -> None:
    eager, compiled = {"cpu_s": 4.0, "first_cpu_s": 6.0}, {"cpu_s": 3.0, "first_cpu_s": 66.0}
    assert bench._cost_of_compiling(eager, compiled) == {"compile_cpu_s": 60.0, "pays_after_steps": 60}
    assert bench._cost_of_compiling(compiled, {"cpu_s": 4.0, "first_cpu_s": 70.0})["pays_after_steps"] is None


def test_the_best_step_counts() -> None:
    steps = [Took(3.0, 2.0, 0.0, 150.0, 50.0), Took(1.0, 2.5, 0.0, 170.0, 50.0), Took(1.5, 2.1, 0.0, 160.0, 50.0)]
    assert best_of(steps) == {"wall_s": 1.0, "median_wall_s": 1.5, "cpu_s": 2.0, "memory_mb": 120.0}


def test_pictures_are_not_flat() -> None:
    made = pictures(3, 16)
    assert (made.shape, made.dtype) == ((3, 3, 16, 16), torch.uint8)
    assert made.flatten(1).float().std(dim=1).min() > 5
