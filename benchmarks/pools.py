"""How start-up and memory grow with the unlabelled pool: 10^4 to 10^7 entries, each size in a process of its own.

The entries of a list have different paths, as those of a real one; folders that are links make a few files many. No
image is decoded: what is measured is what every process of a run holds besides pixels and network.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.child import run_code

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
FILES = 1000  # in a folder


def bench_pools(sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Return seconds and MiB by size: the index, the order of the pool, and the counts per image."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photos = make_photos(folder / "photos")
        rows = []
        for size in sizes:
            listed = write_list(folder / "pool", size)
            rows.append({"size": size, **run_code("pool", CODE, str(photos), str(listed))})
    return {"rows": rows}


def make_photos(folder: Path) -> Path:
    """Write a labelled photo for each of two classes."""
    for number in range(2):
        file = folder / f"class {number}" / "a.png"
        file.parent.mkdir(parents=True)
        Image.fromarray(np.full((8, 8, 3), 100 * number, np.uint8)).save(file)
    return folder


def write_list(folder: Path, size: int) -> Path:
    """Write a list of so many different paths."""
    original = folder / "original"
    original.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        (original / f"{number:04}.jpg").touch()
    for number in range(-(-size // FILES)):
        link = folder / f"folder-{number:05}"
        if not link.exists():
            link.symlink_to(original)
    file = folder / f"{size}.txt"
    with file.open("w", encoding="utf-8") as stream:
        stream.writelines(f"folder-{i // FILES:05}/{i % FILES:04}.jpg\n" for i in range(size))
    return file


CODE = """
import json, resource, sys, time
from pathlib import Path
from semco.config import DataConfig
from semco.data.batches import Stream
from semco.data.sources import list_source
from semco.data.storage.pixel_cache import key
from semco.training.pool_statistics import ImageCounts

def memory():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize() / 2**20

before, result = memory(), {}

def note(name, started):
    result[f"{name}_cpu_s"] = round(time.process_time() - started, 2)
    result[f"{name}_mib"] = round(memory() - before, 1)

started = time.process_time()
listing = list_source(DataConfig(source=sys.argv[1], unlabeled=Path(sys.argv[2])))
note("index", started)
started = time.process_time()
key(listing.train, 96)
note("key", started)
started = time.process_time()
stream = Stream(len(listing.train), 0, "unlabelled")
stream.slice(0, 192)
note("order", started)
started = time.process_time()
counts = ImageCounts.empty(len(listing.train))
counts.seen += 1  # memory counts once it is written
counts.retained += 1
counts.wrong_count += 1
note("counts", started)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
print(json.dumps({**result, "all_mib": round(memory() - before, 1), "peak_mib": round(peak)}))
"""
