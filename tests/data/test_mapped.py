"""Tensors in files: what is read, and that its pages are given back."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
import torch

from semco.data.storage import mapped
from semco.data.storage.mapped import count_read, in_chunks, is_mapped, map_array, map_tensor, rows_at

ROWS, ROW = 4096, (3, 32, 32)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pixels"
    np.random.default_rng(0).integers(0, 256, (ROWS, *ROW), dtype=np.uint8).tofile(path)
    return path


def mapped_bytes(path: Path) -> int:
    """Return how much of a file is in the memory of this process."""
    kilobytes, is_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.partition(" ")[0] and ":" not in line.partition(" ")[0]:
            is_file = line.endswith(str(path))
        elif is_file and line.startswith("Rss:"):
            kilobytes += int(line.split()[1])
    return 1024 * kilobytes


def test_rows_and_chunks_are_those_of_the_file(file: Path) -> None:
    whole, tensor = torch.from_numpy(np.fromfile(file, np.uint8).reshape(ROWS, *ROW)), map_tensor(file, (ROWS, *ROW))
    position = torch.tensor([5, 0, 4095, 5])
    assert rows_at(tensor, position).equal(whole[position])
    assert rows_at(whole, position).equal(whole[position])
    assert torch.cat(list(in_chunks(tensor, 1000))).equal(whole)
    assert [len(chunk) for chunk in in_chunks(tensor[10:], 4000)] == [4000, 86]
    assert (is_mapped(tensor), is_mapped(tensor[7:9]), is_mapped(whole)) == (True, True, False)


def test_pages_are_given_back(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/self/smaps").exists() or not hasattr(mapped.mmap, "MADV_DONTNEED"):
        pytest.skip("this system does not show which pages are mapped")
    monkeypatch.setattr(mapped, "MOST_MAPPED", 1 << 20)
    tensor = map_tensor(file, (ROWS, *ROW))
    tensor.sum()
    assert mapped_bytes(file) == file.stat().st_size  # 12 MiB: what reading without giving back would keep
    for chunk in in_chunks(tensor, 128):
        chunk.sum()
    assert mapped_bytes(file) < 4 << 20
    for start in range(0, ROWS, 128):
        rows_at(tensor, torch.arange(start, start + 128))
    assert mapped_bytes(file) < 4 << 20
    array = map_array(file, np.dtype(np.uint8), (ROWS, *ROW))
    array.sum()
    count_read(array, array.nbytes)
    assert mapped_bytes(file) < 4 << 20


def test_a_file_that_nobody_uses_is_closed(file: Path) -> None:
    gc.collect()
    before = len(mapped._OPEN)
    tensor = map_tensor(file, (ROWS, *ROW))
    part = tensor[3:5]
    del tensor
    gc.collect()
    assert len(mapped._OPEN) == before + 1
    del part
    gc.collect()
    assert len(mapped._OPEN) == before
