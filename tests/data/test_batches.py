"""Batches depend only on seed and step, for any number of processes and in any order of requests."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from torch import Tensor

from semco.config import DataConfig
from semco.data.batches import Batches, Prefetch, Stream
from semco.data.inputs import ImageInputs
from semco.data.randomness import derive_seed, make_generator
from semco.data.split import make_split
from semco.errors import UserError
from semco.types import Batch, ViewCounts, Views

IMAGES = torch.arange(120, dtype=torch.uint8).view(120, 1, 1, 1).expand(-1, 1, 4, 4).contiguous()
LABELS = torch.arange(4).repeat(30)
LABELS[100:] = -1
SPLIT = make_split(LABELS, DataConfig(labels_per_class=3, validation="train"), seed=0)
ALL = ViewCounts(labelled_weak=1, labelled_strong=1, unlabelled_weak=2, unlabelled_strong=1)


class Noise:
    """Views whose integer part is the number of the image and whose fraction is random."""

    def views(self, images: Tensor, weak: int, strong: int, generator: torch.Generator) -> Views:
        made = [images.float() + 0.9 * torch.rand(images.shape, generator=generator) for _ in range(weak + strong)]
        return Views(tuple(made[:weak]), tuple(made[weak:]))

    def plain(self, images: Tensor) -> Tensor:
        return images.float()


INPUTS = ImageInputs(IMAGES, Noise(), torch.device("cpu"))


def batches(**changes: object) -> Batches:
    options = {"batch_size": 12, "mu": 2, "seed": 5, **changes}
    counts = options.pop("counts", ALL)
    return Batches(INPUTS, LABELS, SPLIT, counts, **options)  # type: ignore[arg-type]


def shown(view: Tensor) -> list[int]:
    return view[:, 0, 0, 0].floor().long().tolist()


def same(one: tuple[Batch, Tensor], other: tuple[Batch, Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(_tensors(*one), _tensors(*other), strict=True))


def _tensors(batch: Batch, truth: Tensor) -> list[Tensor]:
    views = [*batch.labelled.weak, *batch.labelled.strong, *batch.unlabelled.weak, *batch.unlabelled.strong]
    return [batch.class_ids, batch.labelled_index, batch.unlabelled_index, truth, *views]


class TestStream:
    def test_each_round_is_a_permutation(self) -> None:
        taken = Stream(7, 0, "x").slice(0, 21)
        for start in (0, 7, 14):
            assert sorted(taken[start : start + 7]) == list(range(7))

    def test_rounds_differ(self) -> None:
        taken = Stream(50, 0, "x").slice(0, 100)
        assert taken[:50].tolist() != taken[50:].tolist()

    def test_slices_agree_with_the_whole_sequence(self) -> None:
        whole = Stream(7, 3, "x").slice(0, 60).tolist()
        stream = Stream(7, 3, "x")
        for start, stop in [(50, 60), (0, 1), (3, 40), (6, 8), (13, 14), (20, 20)]:
            assert stream.slice(start, stop).tolist() == whole[start:stop]

    def test_names_and_seeds_give_different_streams(self) -> None:
        orders = {tuple(Stream(30, seed, name).slice(0, 30)) for seed in (0, 1) for name in ("a", "b")}
        assert len(orders) == 4

    def test_a_round_of_a_large_pool_is_shuffled_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shuffles = []
        original = Stream._shuffle
        monkeypatch.setattr(Stream, "_shuffle", lambda s, n: shuffles.append(n) or original(s, n))
        stream = Stream(1000, 0, "x")
        for step in range(100):
            stream.slice(30 * step, 30 * step + 30)
        assert shuffles == [0, 1, 2]


class TestBatch:
    def test_indices_labels_truth_and_images_agree(self) -> None:
        batch, truth = batches().batch(4)
        where, pool = SPLIT.labelled[batch.labelled_index], SPLIT.unlabelled[batch.unlabelled_index]
        assert batch.class_ids.tolist() == LABELS[where].tolist()
        # Labelled images are not used to score pseudo-labels.
        known = torch.from_numpy(~np.isin(pool, SPLIT.labelled))
        assert truth.tolist() == torch.where(known, LABELS[pool], -2).tolist()
        assert bool((truth >= 0).any())
        for view in (*batch.labelled.weak, *batch.labelled.strong):
            assert shown(view) == where.tolist()
        for view in (*batch.unlabelled.weak, *batch.unlabelled.strong):
            assert shown(view) == pool.tolist()

    def test_sizes_and_counts(self) -> None:
        batch, truth = batches().batch(0)
        assert [len(batch.labelled.weak), len(batch.labelled.strong)] == [1, 1]
        assert [len(batch.unlabelled.weak), len(batch.unlabelled.strong)] == [2, 1]
        assert batch.class_ids.shape == batch.labelled_index.shape == (12,)
        assert truth.shape == batch.unlabelled_index.shape == (24,)

    def test_each_unlabelled_image_occurs_once_per_pass(self) -> None:
        made, pool = batches(), len(SPLIT.unlabelled)
        seen = torch.cat([made.batch(step)[0].unlabelled_index for step in range(pool // 24 + 1)])
        assert sorted(seen[:pool].tolist()) == list(range(pool))

    def test_unknown_truth_is_minus_one(self) -> None:
        truths = torch.cat([batches().batch(step)[1] for step in range(5)])
        assert (truths == -1).any()
        assert (truths >= 0).any()

    def test_no_unlabelled_images_if_no_views_of_them_are_wanted(self) -> None:
        batch, truth = batches(counts=ViewCounts()).batch(3)
        assert batch.unlabelled == Views()
        assert batch.unlabelled_index.shape == truth.shape == (0,)
        assert batch.unlabelled_index.dtype == truth.dtype == torch.int64

    def test_a_batch_depends_only_on_seed_and_step(self) -> None:
        straight = [made.batch(step) for made in [batches()] for step in range(8)]
        for step in (7, 2, 5):
            assert same(batches().batch(step), straight[step])

    def test_steps_seeds_and_views_differ(self) -> None:
        made = batches()
        assert not torch.equal(made.batch(0)[0].labelled.weak[0], made.batch(1)[0].labelled.weak[0])
        assert made.batch(0)[0].unlabelled_index.tolist() != batches(seed=6).batch(0)[0].unlabelled_index.tolist()
        first, second = made.batch(0)[0].unlabelled.weak
        assert not torch.equal(first, second)

    def test_no_labelled_image(self) -> None:
        split = make_split(LABELS, DataConfig(labels_per_class=3, validation="train"), seed=0)
        object.__setattr__(split, "labelled", split.labelled[:0])
        with pytest.raises(UserError, match="no labelled image"):
            Batches(INPUTS, LABELS, split, ALL, batch_size=4, mu=1, seed=0)


class TestSeveralProcesses:
    @pytest.mark.parametrize("world_size", [2, 3, 4])
    def test_together_they_use_the_images_of_one_process(self, world_size: int) -> None:
        ranks = [batches(rank=r, world_size=world_size) for r in range(world_size)]
        for step in (0, 1, 9):
            alone, truth = batches().batch(step)
            parts = [rank.batch(step) for rank in ranks]
            assert torch.cat([b.labelled_index for b, _ in parts]).equal(alone.labelled_index)
            assert torch.cat([b.unlabelled_index for b, _ in parts]).equal(alone.unlabelled_index)
            assert torch.cat([b.class_ids for b, _ in parts]).equal(alone.class_ids)
            assert torch.cat([t for _, t in parts]).equal(truth)
            assert shown(torch.cat([b.unlabelled.weak[0] for b, _ in parts])) == shown(alone.unlabelled.weak[0])

    def test_no_two_processes_use_the_same_unlabelled_image(self) -> None:
        parts = [set(batches(rank=r, world_size=3).batch(0)[0].unlabelled_index.tolist()) for r in range(3)]
        assert len(set.union(*parts)) == sum(len(p) for p in parts) == 24

    def test_their_views_differ(self) -> None:
        one, other = (batches(rank=r, world_size=2).batch(0)[0].labelled.weak[0] for r in range(2))
        assert not torch.equal(one - one.floor(), other - other.floor())

    def test_a_batch_size_that_cannot_be_divided(self) -> None:
        with pytest.raises(UserError, match=r"batch_size = 12 cannot be divided evenly among 5 .* a multiple of 5"):
            batches(world_size=5)


class TestRandomness:
    def test_the_same_key_gives_the_same_numbers(self) -> None:
        assert torch.rand(5, generator=make_generator(1, 2, "a")).equal(
            torch.rand(5, generator=make_generator(1, 2, "a"))
        )

    def test_different_keys_give_different_seeds(self) -> None:
        keys = [(1, 2), (12,), (1, "2"), (2, 1), (1, 2, 0), (2**32 + 1,), (1, 1)]
        assert len({derive_seed(*key) for key in keys}) == len(keys)  # type: ignore[arg-type]

    def test_known_value(self) -> None:
        # sha256("[0, 1, 'x']"), first eight bytes, little-endian, without the lowest bit: resuming depends on it.
        assert derive_seed(0, 1, "x") == 6162860979093243069


class TestPrefetch:
    def test_returns_the_batches_in_order(self) -> None:
        made = batches()
        with Prefetch(made, 3, 8) as ahead:
            got = list(ahead)
        assert len(got) == 5
        assert all(same(one, made.batch(step)) for step, one in enumerate(got, start=3))

    def test_no_steps(self) -> None:
        with Prefetch(batches(), 4, 4) as ahead:
            assert list(ahead) == []

    def test_makes_one_batch_in_advance(self) -> None:
        recorder = Recorder(batches())
        with Prefetch(recorder, 0, 10) as ahead:  # type: ignore[arg-type]
            next(ahead)
            recorder.wait_for(1)
            next(ahead)
            recorder.wait_for(2)
        assert recorder.steps == [0, 1, 2]

    def test_an_error_is_raised_where_the_batch_is_requested(self) -> None:
        with Prefetch(Failing(), 0, 5) as ahead:  # type: ignore[arg-type]
            assert [next(ahead), next(ahead)] == [0, 1]
            with pytest.raises(RuntimeError, match="step 2"):
                next(ahead)

    def test_ends_its_thread(self) -> None:
        before = threading.active_count()
        with pytest.raises(KeyboardInterrupt), Prefetch(batches(), 0, 100):
            raise KeyboardInterrupt
        assert threading.active_count() == before


class Recorder:
    def __init__(self, made: Batches) -> None:
        self.made, self.steps, self._done = made, [], threading.Condition()

    def batch(self, step: int) -> tuple[Batch, Tensor]:
        with self._done:
            self.steps.append(step)
            self._done.notify_all()
        return self.made.batch(step)

    def wait_for(self, step: int) -> None:
        with self._done:
            assert self._done.wait_for(lambda: step in self.steps, timeout=30)


class Failing:
    def batch(self, step: int) -> int:
        if step == 2:
            raise RuntimeError("step 2")
        return step


def test_views_per_step() -> None:
    assert batches().views_per_step == 12 * 2 + 24 * 3
    assert batches(world_size=2).views_per_step == 6 * 2 + 12 * 3
    assert batches(counts=ViewCounts(labelled_weak=1)).views_per_step == 12
