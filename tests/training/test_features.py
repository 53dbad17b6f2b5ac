"""Outputs of frozen layers in a file: what is in it, and what happens when it is cut off, damaged or removed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from semco.config import AugmentConfig
from semco.data.inputs import ImageInputs
from semco.data.randomness import make_generator
from semco.data.storage import chunks
from semco.data.storage.chunks import LOCK, PROGRESS
from semco.data.storage.folders import remove_oldest
from semco.data.views import Augment
from semco.errors import UserError
from semco.training.features import CHUNK, CachedInputs, FeatureFile

CPU = torch.device("cpu")
DATA = "features.f16"
IMAGES, VIEWS = 2 * CHUNK + 5, 2  # three chunks, the last one short
CHUNKS = 3
VIEWS_PER_CHUNK = 1 + 2 * VIEWS
Usage = namedtuple("Usage", "total used free")


class Frozen(nn.Module):
    """A convolution that counts its calls and raises at call ``last``, as a crash would."""

    def __init__(self, last: int | None = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        with torch.no_grad():
            self.conv.weight.copy_(torch.linspace(-0.5, 0.5, self.conv.weight.numel()).view_as(self.conv.weight))
            assert self.conv.bias is not None
            self.conv.bias.zero_()
        self.last, self.calls = last, 0

    def forward(self, images: Tensor) -> Tensor:
        if self.calls == self.last:
            raise RuntimeError("crash")
        self.calls += 1
        return self.conv(images)


def make_inputs() -> ImageInputs:
    images = torch.randint(0, 256, (IMAGES, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return ImageInputs(images, Augment(AugmentConfig(), torch.full((3,), 0.5), torch.full((3,), 0.25)), CPU)


def make_file(folder: Path, images: int = IMAGES) -> FeatureFile:
    return FeatureFile(folder, images, VIEWS, (4, 8, 8))


def no_report(done: int, total: int) -> None:
    pass


def compute(folder: Path, last: int | None = None) -> Frozen:
    """Compute the file and return the frozen layers, which know how often they were called."""
    frozen = Frozen(last)
    make_file(folder).compute(frozen, make_inputs(), CPU, no_report)
    return frozen


def damage(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_shape_and_size_are_those_of_all_views_in_half_precision(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    assert file.file.shape == (69, 5, 4, 8, 8)
    assert file.size == 69 * 5 * 4 * 8 * 8 * 2
    assert file.file.chunks == CHUNKS


def test_the_file_holds_the_outputs_of_plain_weak_and_strong_views(tmp_path: Path) -> None:
    frozen, inputs, file = compute(tmp_path), make_inputs(), make_file(tmp_path)
    assert frozen.calls == CHUNKS * VIEWS_PER_CHUNK
    array = file.open()
    for number in range(CHUNKS):
        position = torch.arange(number * CHUNK, min((number + 1) * CHUNK, IMAGES))
        views = inputs.views(position, VIEWS, VIEWS, make_generator(number, "features"))
        for column, view in enumerate([inputs.plain(position), *views.weak, *views.strong]):
            expected = frozen.conv(view).detach().numpy()
            np.testing.assert_allclose(array[position.numpy(), column], expected, rtol=1e-3, atol=1e-3)


def test_progress_is_reported_in_images(tmp_path: Path) -> None:
    reports: list[tuple[int, int]] = []
    make_file(tmp_path).compute(Frozen(), make_inputs(), CPU, lambda done, total: reports.append((done, total)))
    assert reports == [(32, 69), (64, 69), (69, 69)]


@pytest.mark.parametrize("chunks", [0, 1, 2])
def test_a_computation_that_was_cut_off_is_resumed_with_the_same_bytes(tmp_path: Path, chunks: int) -> None:
    compute(tmp_path / "whole")
    with pytest.raises(RuntimeError, match="crash"):
        compute(tmp_path / "cut", last=chunks * VIEWS_PER_CHUNK + 2)  # in the middle of a chunk
    assert not make_file(tmp_path / "cut").is_complete()
    assert compute(tmp_path / "cut").calls == (CHUNKS - chunks) * VIEWS_PER_CHUNK
    assert make_file(tmp_path / "cut").is_complete()
    for name in (DATA, PROGRESS):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_complete_file_is_not_computed_again(tmp_path: Path) -> None:
    compute(tmp_path)
    assert compute(tmp_path).calls == 0


@pytest.mark.parametrize("position", [0, CHUNK * 5 * 4 * 8 * 8 * 2, -1])
def test_a_flipped_bit_costs_its_own_chunk_only(tmp_path: Path, position: int) -> None:
    compute(tmp_path)
    before = (tmp_path / DATA).read_bytes()
    damage(tmp_path / DATA, position)
    assert not make_file(tmp_path).is_complete()
    assert compute(tmp_path).calls == VIEWS_PER_CHUNK
    assert (tmp_path / DATA).read_bytes() == before
    assert make_file(tmp_path).is_complete()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"checksums": ["ab',
        b"\xff\xfe\x00",
        b"[]",
        b'{"checksums": 3, "rows": 3, "notes": null}',
        b'{"checksums": [null, null], "rows": [32, 32], "notes": [null, null]}',
        b'{"checksums": [1, {}, "0"], "rows": [32, 32, 5], "notes": [null, null, null]}',
        b'{"checksums": ["0", "0", "0"], "rows": [-1, 99, "5"], "notes": [null, null, null]}',
        b'{"checksums": ["0", "0", "0"]}',
        b"{}",
    ],
)
def test_damaged_progress_means_that_everything_is_computed_again(tmp_path: Path, content: bytes) -> None:
    compute(tmp_path)
    before = (tmp_path / DATA).read_bytes(), (tmp_path / PROGRESS).read_bytes()
    (tmp_path / PROGRESS).write_bytes(content)
    assert not make_file(tmp_path).is_complete()
    assert compute(tmp_path).calls == CHUNKS * VIEWS_PER_CHUNK
    assert ((tmp_path / DATA).read_bytes(), (tmp_path / PROGRESS).read_bytes()) == before


def test_a_cut_off_file_keeps_its_intact_chunks(tmp_path: Path) -> None:
    compute(tmp_path)
    before = (tmp_path / DATA).read_bytes()
    (tmp_path / DATA).write_bytes(before[: len(before) // 2])  # chunk 0 is whole, chunk 1 is not
    assert not make_file(tmp_path).is_complete()
    assert compute(tmp_path).calls == 2 * VIEWS_PER_CHUNK
    assert (tmp_path / DATA).read_bytes() == before


def test_a_file_without_data_or_progress_is_not_complete(tmp_path: Path) -> None:
    assert not make_file(tmp_path / "none").is_complete()
    compute(tmp_path)
    (tmp_path / PROGRESS).unlink()
    assert not make_file(tmp_path).is_complete()


def test_a_disk_without_room_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(10**9, 10**9, 1000))
    with pytest.raises(UserError, match=r"make room, or lower model.cached_views \(2\)"):
        compute(tmp_path)
    assert (tmp_path / DATA).stat().st_size == 0  # nothing was reserved


def test_what_is_written_already_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compute(tmp_path)
    damage(tmp_path / DATA, 0)
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(10**9, 10**9, 1000))
    compute(tmp_path)
    assert make_file(tmp_path).is_complete()


def test_what_was_reserved_but_not_written_needs_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill the file has its full size, but most of it takes no room on the disk."""
    with (tmp_path / DATA).open("wb") as stream:
        stream.truncate(make_file(tmp_path).size)
    if (tmp_path / DATA).stat().st_blocks * 512 > 4096:
        pytest.skip("this file system writes the whole file")
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(10**9, 10**9, 1000))
    with pytest.raises(UserError, match="make room"):
        compute(tmp_path)


def test_a_disk_that_fills_up_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(chunks.os, "fsync", fail)
        with pytest.raises(UserError, match=r"cannot write .*features.f16: No space left on device"):
            compute(tmp_path)
    assert compute(tmp_path).calls == CHUNKS * VIEWS_PER_CHUNK


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        compute(tmp_path / "file" / "key")


def test_another_process_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process finishes the file while this one waits, so nothing is left to compute."""
    compute(tmp_path / "other")
    (tmp_path / "mine").mkdir()
    other = (tmp_path / "mine" / LOCK).open("w")
    fcntl.flock(other, fcntl.LOCK_EX)
    waits: list[float] = []

    def finish(seconds: float) -> None:
        waits.append(seconds)
        for name in (DATA, PROGRESS):
            (tmp_path / "mine" / name).write_bytes((tmp_path / "other" / name).read_bytes())
        other.close()

    monkeypatch.setattr(chunks.time, "sleep", finish)
    assert compute(tmp_path / "mine").calls == 0
    assert len(waits) == 1


def test_inputs_are_the_stored_views(tmp_path: Path) -> None:
    compute(tmp_path)
    file = make_file(tmp_path)
    array, inputs = file.open().astype(np.float32), CachedInputs(file, CPU)
    assert inputs.shape == (4, 8, 8)
    position = torch.tensor([68, 0, 33, 0])
    plain = inputs.plain(position)
    assert plain.dtype == torch.float32
    assert plain.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_array_equal(plain.numpy(), array[[68, 0, 33, 0], 0])
    views = inputs.views(position, 2, 1, torch.Generator().manual_seed(3))
    for row, i in enumerate(position.tolist()):
        weak = [np.flatnonzero([np.array_equal(view[row], array[i, c]) for c in range(5)]) for view in views.weak]
        assert sorted(int(columns[0]) for columns in weak) == [1, 2]  # two weak views are different ones
        assert any(np.array_equal(views.strong[0][row], array[i, c]) for c in (3, 4))


def test_views_are_drawn_anew_and_decided_by_the_generator(tmp_path: Path) -> None:
    compute(tmp_path)
    inputs, position = CachedInputs(make_file(tmp_path), CPU), torch.arange(IMAGES)
    one, same, other = (inputs.views(position, 1, 1, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(one.weak[0], same.weak[0])
    assert torch.equal(one.strong[0], same.strong[0])
    assert not torch.equal(one.weak[0], other.weak[0])
    more = inputs.views(position, 3, 0, torch.Generator().manual_seed(0))
    assert torch.equal(more.weak[2], more.weak[0])  # only two are stored
    assert more.strong == ()


def test_without_views_the_outputs_are_stored_as_they_are(tmp_path: Path) -> None:
    file, frozen, inputs = FeatureFile(tmp_path, IMAGES, 0, (4, 8, 8)), Frozen(), make_inputs()
    file.compute(frozen, inputs, CPU, no_report)
    assert frozen.calls == CHUNKS  # the plain view of each chunk
    assert (tmp_path / "features.f32").stat().st_size == file.size == IMAGES * 4 * 8 * 8 * 4
    position = torch.arange(CHUNK)
    torch.testing.assert_close(CachedInputs(file, CPU).plain(position), frozen(inputs.plain(position)), rtol=0, atol=0)


def test_vectors_are_inputs_too(tmp_path: Path) -> None:
    class Pooled(Frozen):
        def forward(self, images: Tensor) -> Tensor:
            return super().forward(images).mean((2, 3))

    file = FeatureFile(tmp_path, IMAGES, VIEWS, (4,))
    file.compute(Pooled(), make_inputs(), CPU, no_report)
    assert CachedInputs(file, CPU).plain(torch.tensor([1, 2])).shape == (2, 4)


def make_old_files(root: Path) -> dict[str, Path]:
    """Three files of 100 bytes; the last was used longest ago."""
    folders = {}
    for age, name in enumerate(("newest", "middle", "oldest")):
        folders[name] = root / name
        folders[name].mkdir(parents=True)
        (folders[name] / DATA).write_bytes(bytes(100))
        (folders[name] / PROGRESS).write_text(json.dumps({}))
        os.utime(folders[name] / PROGRESS, (1e9 - 1000 * age,) * 2)
    return folders


@pytest.mark.parametrize(
    ("most", "left"),
    [
        (300, {"newest", "middle", "oldest"}),
        (299, {"newest", "middle"}),
        (150, {"newest"}),
        (0, set()),
    ],
)
def test_the_files_used_longest_ago_are_removed(tmp_path: Path, most: int, left: set[str]) -> None:
    make_old_files(tmp_path)
    (tmp_path / "foreign").mkdir()
    remove_oldest(tmp_path, tmp_path / "own", most)
    assert {path.name for path in tmp_path.iterdir()} == left | {"foreign"}


def test_own_and_locked_files_are_kept(tmp_path: Path) -> None:
    folders = make_old_files(tmp_path)
    with (folders["middle"] / LOCK).open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        remove_oldest(tmp_path, folders["oldest"], 0)
    assert {path.name for path in tmp_path.iterdir()} == {"middle", "oldest"}


def test_a_folder_that_is_not_there_yet_has_nothing_to_remove(tmp_path: Path) -> None:
    remove_oldest(tmp_path / "none", tmp_path / "none" / "key", 0)


def test_using_a_file_makes_it_the_newest(tmp_path: Path) -> None:
    compute(tmp_path)
    os.utime(tmp_path / PROGRESS, (1e9, 1e9))
    CachedInputs(make_file(tmp_path), CPU)
    assert (tmp_path / PROGRESS).stat().st_mtime > 1e9
