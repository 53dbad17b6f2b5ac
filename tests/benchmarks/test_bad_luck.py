"""The data sets with bad luck, by counting what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from semco.config import DataConfig
from semco.data.sources import load
from tests.conftest import load_script

bad_luck = load_script("bad_luck")
IMAGES, CLASSES = 20, 4


@pytest.fixture
def arrays() -> dict[str, NDArray[np.generic]]:
    """20 training images of each of four classes, all different, and two test images of each."""
    images = np.random.default_rng(0).integers(0, 256, (IMAGES * CLASSES, 8, 8, 3), dtype=np.uint8)
    class_ids = np.arange(IMAGES * CLASSES) % CLASSES
    names = np.array(["a", "b", "c", "d"])
    return {
        "x_train": images,
        "y_train": class_ids,
        "x_test": images[:8],
        "y_test": class_ids[:8],
        "class_names": names,
    }


def spoiled(
    kind: str, arrays: dict[str, NDArray[np.generic]], foreign: object = None
) -> dict[str, NDArray[np.generic]]:
    found = bad_luck.spoil(kind, arrays, np.random.default_rng(1), foreign)
    if kind != "thirds":
        assert all((found[name] == arrays[name]).all() for name in ("x_test", "y_test", "class_names"))
    return found


def test_a_tenth_of_the_labels_is_wrong(arrays) -> None:
    found = spoiled("wrong-labels", arrays)
    assert (found["y_train"] != arrays["y_train"]).sum() == 8
    assert found["y_train"].max() < CLASSES
    assert (found["x_train"] == arrays["x_train"]).all()


def test_one_class_has_one_label_and_the_others_five(arrays) -> None:
    found = spoiled("one-label", arrays)["y_train"]
    assert sorted(np.bincount(found[found >= 0])) == [1, 5, 5, 5]
    assert (found[found >= 0] == arrays["y_train"][found >= 0]).all()


def test_foreign_images_are_a_third(arrays) -> None:
    foreign = np.zeros((100, 8, 8, 3), dtype=np.uint8)
    found = spoiled("foreign", arrays, foreign)
    is_foreign = (found["x_train"] == 0).all(axis=(1, 2, 3))
    assert is_foreign.mean() == pytest.approx(1 / 3)
    assert ((found["y_train"] == -1) == is_foreign).all()


def test_a_tenth_of_the_images_is_there_six_times(arrays) -> None:
    found = spoiled("duplicates", arrays)
    _, counts = np.unique(found["x_train"], axis=0, return_counts=True)
    assert (counts == 6).sum() == 8
    assert (found["y_train"] == -1).sum() == 40


def test_the_pool_beside_five_labels_per_class_has_a_tail(arrays) -> None:
    found = spoiled("tail", arrays)
    # 15 photos beside the labels: 15, 15 / 10 ** (1 / 3) = 6.96, 15 / 10 ** (2 / 3) = 3.2 and 1.5
    assert sorted(np.bincount(found["y_train"])) == [7, 8, 12, 20]


def test_thirds_are_dark_medium_and_bright(arrays) -> None:
    found = spoiled("thirds", arrays)
    assert found["class_names"][:4].tolist() == ["dark a", "medium a", "bright a", "dark b"]
    assert np.bincount(found["y_train"]).tolist() == [7, 7, 6] * CLASSES
    brightness = found["x_train"].mean(axis=(1, 2, 3))
    for k in range(CLASSES):
        dark, medium, bright = (brightness[found["y_train"] == 3 * k + third] for third in range(3))
        assert dark.max() < medium.min()
        assert medium.max() < bright.min()
    assert (found["y_train"] // 3 == arrays["y_train"]).all()


def test_the_file_is_a_data_set(tmp_path: Path) -> None:
    bad_luck.main(["wrong-labels", "fashion-mini", str(tmp_path / "wrong.npz"), "--most", "10"])
    found, clean = (load(DataConfig(source=each)) for each in (str(tmp_path / "wrong.npz"), "fashion-mini"))
    assert found.class_names == clean.class_names
    assert found.train_images.shape == (100, 1, 28, 28)
    assert found.test_images is not None
    assert len(found.test_images) == 100
