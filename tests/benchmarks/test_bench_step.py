"""The measurement of a step: the variants that it compares make the same computation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from benchmarks import step as bench
from benchmarks.step import (
    OTHER_PARTS,
    QUICK,
    TEACHES,
    RecordedForward,
    make_variants,
    profile,
    step_parts,
    time_parts,
)
from benchmarks.synthetic import Setting, build_trainer, make_images
from benchmarks.worker import StepTimes, measure_in_turns, run_worker, start_worker, summarise
from semco.errors import UserError
from semco.models.activation import Block
from semco.training.forward import NetworkForward
from semco.training.observer import MetricsLine, NullObserver


class EnoughSteps(Exception):  # noqa: N818 (not an error)
    """Ends a run."""


class LossRecorder(NullObserver):
    """Records the loss of each step and ends the run after ``count`` steps."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.losses: list[float] = []

    def on_line(self, line: MetricsLine) -> None:
        self.losses.append(float(line["loss"] or 0.0))
        if len(self.losses) == self.count:
            raise EnoughSteps


def losses(setting: Setting, folder: Path, count: int = 3) -> list[float]:
    recorder = LossRecorder(count)
    with pytest.raises(EnoughSteps):
        build_trainer(setting, folder, recorder).run()
    return recorder.losses


def test_semco_plus_is_measured_by_default() -> None:
    assert Setting().config().method.name == "semco_plus"


def test_without_normalisation_all_variants_have_the_same_losses(tmp_path: Path) -> None:
    """With batch norm, the joint pass normalises all views as one batch, which changes the losses."""
    variants = make_variants(replace(QUICK, norm="none"))
    teaching = variants.pop(TEACHES)  # with other thresholds: beside a step that runs every image
    everything = replace(teaching, skip="off")
    assert losses(teaching, tmp_path / "some") == pytest.approx(losses(everything, tmp_path / "all"), abs=1e-4)
    assert len(variants) == 5
    authors, *others = (losses(variant, tmp_path / name) for name, variant in variants.items())
    for other in others:
        assert other == pytest.approx(authors, abs=1e-4)


def test_the_memory_format_does_not_change_the_losses(tmp_path: Path) -> None:
    variants = make_variants(QUICK)
    channels_first = losses(variants["targets without gradient"], tmp_path / "first")
    assert losses(variants["channels last"], tmp_path / "last") == pytest.approx(channels_first, abs=1e-4)
    assert losses(variants["authors"], tmp_path / "joint") != pytest.approx(channels_first, abs=1e-4)


def test_the_variants_differ_as_named(tmp_path: Path) -> None:
    variants = make_variants(QUICK)
    authors = variants["authors"]
    batch, _ = build_trainer(authors, tmp_path, NullObserver()).batches.batch(0)
    assert batch.unlabelled.strong[0].is_contiguous()
    assert authors.config().training.target_views == "joint"
    for name, expected in (("activations recomputed", True), ("freed memory reused", False)):
        trainer = build_trainer(variants[name], tmp_path / name, NullObserver())
        assert {part.recompute for part in trainer.network.modules() if isinstance(part, Block)} == {expected}


def test_the_authors_way_and_products_at_peak_stand_beside_each_variant() -> None:
    seconds = dict(zip(make_variants(QUICK), (8.0, 4.0, 3.2, 3.2, 3.2, 1.6), strict=True))
    measured = {name: {"cpu_s": cpu, "median_cpu_s": 1 + cpu, "memory_mb": 100 * cpu} for name, cpu in seconds.items()}
    rows = bench.rows_of_variants(QUICK, measured, limit=1.6)
    steps, memory = rows[::2], rows[1::2]
    assert [row.times_better for row in steps] == [None, 2.0, 2.5, 2.5, 2.5, 5.0]
    assert [row.times_better for row in memory] == [None, 2.0, 2.5, 2.5, 2.5, 5.0]
    assert [row.median for row in steps] == [1 + cpu for cpu in seconds.values()]
    assert [row.share for row in steps] == [0.2, 0.4, 0.5, 0.5, 0.5, None]
    assert steps[-1].what.endswith(TEACHES)


def test_the_parts_of_a_step_add_up() -> None:
    network, others, *each = bench.rows_of_parts({"network": 99.0, **dict.fromkeys(OTHER_PARTS, 0.5)})
    assert (network.best, others.best) == (99.0, 2.5)
    assert sum(row.best for row in each) == others.best


@pytest.mark.usefixtures("forked_processes")
def test_a_worker_trains_one_step_at_a_time(tmp_path: Path) -> None:
    measured = measure_in_turns({"one": QUICK}, repeats=1, threads=1)["one"]
    assert measured["loss"] == pytest.approx(losses(QUICK, tmp_path, 1)[0], abs=1e-4)
    assert measured["cpu_s"] > 0
    assert measured["memory_mb"] > 0
    assert measured["first_cpu_s"] > measured["cpu_s"]  # it includes building the trainer
    assert measured["first_wall_s"] > 0


# A process that fails before it has imported torch, which takes seconds; that the reason is this is another test.
FAILS = "from semco.errors import UserError; raise UserError('unknown backbone no-such-backbone')"


def test_a_failed_worker_raises_an_error_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.worker._WORKER_CODE", FAILS)
    with start_worker(QUICK, threads=1) as worker, pytest.raises(UserError, match="no-such-backbone"):
        worker.step()


def test_an_unknown_backbone_fails_where_it_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = replace(QUICK, backbone="no-such-backbone")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pytest.raises(UserError, match="no-such-backbone"):
        run_worker(json.dumps(asdict(broken)), str(tmp_path))
    with pytest.raises(UserError, match="no-such-backbone"):
        time_parts(broken, repeats=1)


@pytest.mark.usefixtures("forked_processes")
def test_a_profile_has_all_parts() -> None:
    measured = profile(QUICK, threads=1, repeats=1)
    assert set(measured["ms"]) == {"network", *OTHER_PARTS}
    assert all(value > 0 for value in measured["ms"].values())
    assert min(measured["gflop"], measured["peak_gflops"]) > 0


def test_a_failed_profile_raises_an_error_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_PROFILE_CODE", FAILS)
    with pytest.raises(UserError, match=r"process of the profile stopped .*no-such-backbone"):
        profile(QUICK, threads=1, repeats=1)


def test_a_recorded_forward_repeats_the_outputs_of_the_network(tmp_path: Path) -> None:
    trainer = build_trainer(replace(QUICK, norm="none"), tmp_path, NullObserver())
    forward = NetworkForward(trainer.network, trainer.average)
    batch, _ = trainer.batches.batch(0)
    labelled, targets = batch.labelled.weak[0], {"weak": batch.unlabelled.weak[0]}
    recorded, outputs = RecordedForward(forward), forward(labelled=labelled, no_grad=targets)
    for _ in range(2):
        repeated = recorded(labelled=labelled, no_grad=targets)
        torch.testing.assert_close(repeated["weak"].logits, outputs["weak"].logits)
    assert repeated["labelled"].logits.is_leaf
    assert repeated["labelled"].logits.requires_grad
    assert not repeated["weak"].logits.requires_grad


def test_each_part_of_a_step_does_its_own_work(tmp_path: Path) -> None:
    trainer = build_trainer(QUICK, tmp_path, NullObserver())
    before = [p.detach().clone() for p in trainer.network.parameters()]
    parts = step_parts(QUICK, trainer)
    assert all(p.grad is not None for p in trainer.network.parameters())
    parts["optimiser"]()
    assert not all(torch.equal(a, b) for a, b in zip(before, trainer.network.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.average.parameters(), strict=True))
    parts["ema"]()
    assert not all(torch.equal(a, b) for a, b in zip(before, trainer.average.parameters(), strict=True))


def test_methods_are_compared_at_each_number_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Setting] = {}

    def fake(settings: Mapping[str, Setting], repeats: int, threads: int) -> dict[str, dict[str, float]]:
        assert (repeats, threads) == (3, 2)
        seen.update(settings)
        seconds = {name: 2.0 + 0.1 * (s.method == "semco_plus") for name, s in settings.items()}
        return {name: {"cpu_s": cpu, "median_cpu_s": cpu} for name, cpu in seconds.items()}

    monkeypatch.setattr(bench, "measure_in_turns", fake)
    compared = bench.compare_methods(QUICK, (6, 200), threads=2, repeats=3)
    assert [row.what for row in compared] == ["step of SemCo+, 6 classes", "step of SemCo+, 200 classes"]
    assert [(row.best, row.alternative) for row in compared] == [(2.1, 2.0), (2.1, 2.0)]
    expected = {(method, k) for method in ("fixmatch", "semco_plus") for k in (6, 200)}
    assert {(s.method, s.classes) for s in seen.values()} == expected


def test_the_summary_has_the_best_and_the_median_step() -> None:
    steps = [
        StepTimes(3.0, 2.0, 0.0, 150.0, 50.0),
        StepTimes(1.0, 2.5, 0.0, 170.0, 50.0),
        StepTimes(1.5, 2.1, 0.0, 160.0, 50.0),
    ]
    assert summarise(steps) == {
        "wall_s": 1.0, "median_wall_s": 1.5, "cpu_s": 2.0, "median_cpu_s": 2.1, "memory_mb": 120.0
    }  # fmt: skip


def test_synthetic_images_are_not_flat() -> None:
    images = make_images(3, 16)
    assert (images.shape, images.dtype) == ((3, 3, 16, 16), torch.uint8)
    assert images.flatten(1).float().std(dim=1).min() > 5
