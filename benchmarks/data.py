"""Speed of reading images: decoding, batches from the cache, listing a million entries, scanning many files.

All figures that are compared are measured in turns within one run, on synthetic photos of 500 x 375 pixels.

Shapes: N images.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from benchmarks.child import run_code
from semco.config import AugmentConfig
from semco.data.batches import Batches
from semco.data.inputs import ImageInputs
from semco.data.listing import Part
from semco.data.split import Split
from semco.data.storage.decoder import PartDecoder
from semco.data.storage.mapped import map_tensor, rows_at
from semco.data.storage.pixel_cache import pixel_file
from semco.data.views import Augment
from semco.types import ViewCounts

SIZE, WIDTH, HEIGHT = 96, 500, 375
PROCESSES, BLOCK = 2, 50
ORIGINALS = 200  # different photos; the files are copies of them
BATCH = 64  # images of a step: 16 labelled and 48 unlabelled ones


def bench_data(
    images: int = 10_000, entries: int = 1_000_000, files: int = 100_000, repeats: int = 3, steps: int = 50
) -> dict[str, Any]:
    """Return seconds, rates and ratios of all measurements; ``steps`` batches are timed in each turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = make_photos(folder / "photos", images)
        decoding = time_decoding(paths, folder / "cache", repeats, steps)
        listing = time_listing(folder / "entries", paths[:300], entries, files)
    return {"images": images, "size": SIZE, **decoding, **listing}


def make_photos(folder: Path, count: int) -> list[str]:
    """Write JPEG files of smooth random pictures with some texture, about 45 KB each, and return their paths."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    contents = [_photo(rng) for _ in range(min(count, ORIGINALS))]
    paths = [folder / f"{i:06d}.jpg" for i in range(count)]
    for i, path in enumerate(paths):
        path.write_bytes(contents[i % len(contents)])
    return [str(path) for path in paths]


def _photo(rng: np.random.Generator) -> bytes:
    parts = []
    for rows, columns in ((12, 16), (94, 125)):
        noise = Image.fromarray(rng.integers(0, 256, (rows, columns, 3), dtype=np.uint8))
        parts.append(np.asarray(noise.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)).astype(np.int16))
    pixels = (parts[0] + (parts[1] - 128) // 3).clip(0, 255).astype(np.uint8)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def time_decoding(paths: Sequence[str], cache: Path, repeats: int, steps: int) -> dict[str, Any]:
    """Return images per second of a plain loop in two processes, of our decoder, and of batches.

    The plain loop makes no views, so it is compared with the rows of a batch.
    """
    part = Part()
    part.add_files(paths)
    plain, ours, ratios = [], [], []
    for number in range(repeats):
        plain.append(len(part) / _seconds(lambda: decode_plainly(paths)))
        ours.append(len(part) / _seconds(lambda n=number: _fill(part, cache / str(n))))  # type: ignore[misc]
        ratios.append(ours[-1] / plain[-1])
    mapped = _fill(part, cache / "0")
    warm = time_batches(mapped, mapped.clone(), steps)
    return {
        "plain_per_s": round(max(plain)),
        "cold_per_s": round(max(ours)),
        "cold_times_plain": round(statistics.median(ratios), 2),
        "cache_mb": round(mapped.numel() / 1e6),
        **warm,
        "warm_times_plain": round(warm["cache_rows_per_s"] * BATCH / max(plain)),
    }


def decode_plainly(paths: Sequence[str]) -> None:
    """Open, convert and resize all images with Pillow in two processes; the pixels are not sent back."""
    blocks = [paths[i : i + BLOCK] for i in range(0, len(paths), BLOCK)]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("fork" if os.name == "posix" else "spawn")) as pool:
        assert sum(pool.map(_decode_block, blocks)) == len(paths)


def _decode_block(paths: Sequence[str]) -> int:
    for path in paths:
        with Image.open(path) as image:
            np.asarray(image.convert("RGB").resize((SIZE, SIZE)))
    return len(paths)


def _fill(part: Part, root: Path) -> Tensor:
    """Decode a part into its file, unless it is there, and return its pixels."""
    with PartDecoder(part, SIZE) as decoder:
        file = pixel_file(root, decoder)
        if file.finished() is None:
            file.fill(decoder, lambda *_: None)
    return map_tensor(file.data, file.shape)


def time_batches(mapped: Tensor, memory: Tensor, steps: int, repeats: int = 7) -> dict[str, float]:
    """Return the rates from the file and from memory, in turns: of copying images, and of whole batches.

    A whole batch is what a training step gets: `BATCH` images with the weak and strong views that FixMatch needs.
    """
    generator = torch.Generator().manual_seed(0)
    stored = {"cache": mapped, "memory": memory}
    batches = {name: _training_batches(images) for name, images in stored.items()}
    rows: dict[str, list[float]] = {name: [] for name in stored}
    whole: dict[str, list[float]] = {name: [] for name in stored}
    for each in batches.values():
        each.batch(0)  # the first one may compile
    for turn in range(repeats):
        order = torch.randint(len(mapped), (steps, BATCH), generator=generator)
        for name, images in stored.items():
            rows[name].append(steps / _seconds(lambda i=images, o=order: [rows_at(i, each) for each in o]))  # type: ignore[misc]
        first = turn * steps
        for name, made in batches.items():
            whole[name].append(steps / _seconds(lambda b=made, f=first: [b.batch(f + i) for i in range(steps)]))  # type: ignore[misc]
    return {**_compare("batches", whole), **_compare("rows", rows)}


def _training_batches(images: Tensor) -> Batches:
    """Return the batches of 1 labelled to 3 unlabelled images, all of them random images of the pool."""
    positions = np.arange(len(images))
    augment = Augment(AugmentConfig(), torch.full((3,), 0.5), torch.full((3,), 0.25))
    return Batches(
        ImageInputs(images, augment, torch.device("cpu")),
        torch.zeros(len(images), dtype=torch.int64),
        Split(positions, positions, positions[:0], ""),
        ViewCounts(labelled_weak=1, unlabelled_weak=1, unlabelled_strong=1),
        batch_size=BATCH // 4,
        mu=3,
        seed=0,
    )


def _compare(what: str, rates: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median rates, and the median of the ratios of each turn."""
    ratios = [cache / memory for cache, memory in zip(rates["cache"], rates["memory"], strict=True)]
    return {
        f"cache_{what}_per_s": round(statistics.median(rates["cache"])),
        f"memory_{what}_per_s": round(statistics.median(rates["memory"])),
        f"cache_{what}_of_memory": round(statistics.median(ratios), 2),
    }


def time_listing(folder: Path, originals: Sequence[str], entries: int, files: int) -> dict[str, Any]:
    """Return the seconds and the memory of listing many entries, and the seconds of scanning many files."""
    for number in range(2):
        (folder / "photos" / f"class {number}").mkdir(parents=True)
        (folder / "photos" / f"class {number}" / "a.jpg").write_bytes(Path(originals[number]).read_bytes())
    listed_file = Path(originals[0]).parent / "list.txt"
    names = [Path(path).name for path in originals]
    listed_file.write_text("".join(f"{names[i % len(names)]}\n" for i in range(entries)), encoding="utf-8")
    many = folder / "many"
    for i in range(files):
        place = many / f"class {i % 10}"
        if i < 10:
            place.mkdir(parents=True)
        (place / f"{i:07d}.png").write_bytes(b"x")
    listed = run_code("listing", _LIST_CODE, str(folder / "photos"), str(listed_file))
    scanned = run_code("scan", _LIST_CODE, str(many), "")
    return {
        "entries": listed["images"],
        "start_s": listed["seconds"],
        "start_cpu_s": listed["cpu"],
        "index_mib": listed["mib"],
        "files": scanned["images"],
        "scan_s": scanned["seconds"],
        "scan_cpu_s": scanned["cpu"],
    }


_LIST_CODE = """
import json, resource, sys, time
from pathlib import Path
from semco.config import DataConfig
from semco.data.sources import list_source
from semco.data.storage.pixel_cache import key

def memory():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize() / 2**20

before, started, cpu = memory(), time.perf_counter(), time.process_time()
more = Path(sys.argv[2]) if sys.argv[2] else None
listing = list_source(DataConfig(source=sys.argv[1], unlabeled=more))
key(listing.train, 96)
seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
result = {"images": len(listing.train), "seconds": round(seconds, 2), "cpu": round(cpu, 2)}
print(json.dumps({**result, "mib": round(memory() - before)}))
"""


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
