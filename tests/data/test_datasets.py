"""The data set in memory: statistics, selection of classes, image size."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from semco.data import datasets
from semco.data.datasets import Dataset, choose_classes
from semco.errors import UserError

NAMES = ("maple_tree", "Oak tree", "dog", "cat")


def example(images: Tensor | None = None) -> Dataset:
    images = torch.arange(6, dtype=torch.uint8).view(6, 1, 1, 1).expand(6, 3, 4, 4) if images is None else images
    return Dataset(
        "example",
        images,
        torch.tensor([0, 3, -1, 2, 3, 1]),
        NAMES,
        images[:3],
        torch.tensor([3, 2, 0]),
        tuple("abcdef"),
        tuple("xyz"),
    )


class TestStatistics:
    @pytest.mark.parametrize("channels", [1, 3])
    def test_equal_to_numpy(self, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets, "CHUNK", 4)
        images = torch.randint(0, 256, (11, channels, 5, 7), generator=torch.Generator().manual_seed(0)).byte()
        data = Dataset("x", images, torch.zeros(11, dtype=torch.int64), ("a", "b"))
        pixels = images.numpy().astype(np.float64) / 255
        assert data.mean == pytest.approx(pixels.mean((0, 2, 3)), rel=1e-12)
        assert data.std == pytest.approx(pixels.std((0, 2, 3)), rel=1e-12)

    def test_by_hand(self) -> None:
        images = torch.tensor([0, 0, 255, 255], dtype=torch.uint8).view(4, 1, 1, 1)
        data = Dataset("x", images, torch.zeros(4, dtype=torch.int64), ("a", "b"))
        assert data.mean == (0.5,)
        assert data.std == (0.5,)

    def test_images_of_one_colour_can_still_be_normalised(self) -> None:
        data = Dataset("x", torch.full((4, 1, 2, 2), 51).byte(), torch.zeros(4, dtype=torch.int64), ("a", "b"))
        assert data.mean == (0.2,)
        assert data.std == (1 / 255,)


class TestClasses:
    def test_selected_in_the_order_given_with_the_unlabelled_images(self) -> None:
        chosen = example().with_classes(["cat", "maple tree"])
        assert chosen.class_names == ("cat", "maple_tree")
        assert chosen.train_images[:, 0, 0, 0].tolist() == [0, 1, 2, 4]
        assert chosen.train_labels.tolist() == [1, 0, -1, 0]
        assert chosen.train_paths == ("a", "b", "c", "e")
        assert chosen.test_labels is not None
        assert chosen.test_labels.tolist() == [0, 1]
        assert chosen.test_paths == ("x", "z")

    def test_selecting_all_returns_the_same_data_set(self) -> None:
        data = example()
        assert data.with_classes(NAMES) is data

    @pytest.mark.parametrize("name", ["oak tree", "Oak_Tree", "OAK-TREE", " oak  tree "])
    def test_case_and_spaces_do_not_matter(self, name: str) -> None:
        assert choose_classes(NAMES, [name, "dog"]) == [1, 2]

    def test_case_matters_if_names_differ_by_it(self) -> None:
        assert choose_classes(["Dog", "dog", "cat"], ["dog", "cat"]) == [1, 2]
        with pytest.raises(UserError, match="unknown class 'DOG'"):
            choose_classes(["Dog", "dog", "cat"], ["DOG", "cat"])

    def test_unknown(self) -> None:
        with pytest.raises(UserError, match=r"unknown class 'cta'; did you mean 'cat'\? Known: maple_tree, Oak tree"):
            choose_classes(NAMES, ["cta", "dog"])

    def test_too_few(self) -> None:
        with pytest.raises(UserError, match=r"\['dog'\] names fewer than two classes"):
            choose_classes(NAMES, ["dog"])

    def test_twice(self) -> None:
        with pytest.raises(UserError, match="'dog' occurs twice"):
            choose_classes(NAMES, ["dog", "Dog"])


class TestSize:
    def test_equal_to_pillow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets, "CHUNK", 4)
        images = torch.randint(0, 256, (6, 3, 20, 20), generator=torch.Generator().manual_seed(1)).byte()
        for size in (8, 33):
            resized = example(images).resized(size)
            assert resized.image_size == (size, size)
            for image, result in zip(images, resized.train_images, strict=True):
                pillow = Image.fromarray(image.permute(1, 2, 0).numpy()).resize((size, size), Image.Resampling.BILINEAR)
                difference = np.asarray(pillow).astype(int) - result.permute(1, 2, 0).numpy().astype(int)
                assert np.abs(difference).max() <= 1

    def test_the_centre_is_kept(self) -> None:
        columns = torch.arange(12, dtype=torch.uint8).expand(6, 1, 8, 12)
        resized = example(columns).resized(8)
        assert resized.train_images[0, 0, 0].tolist() == [2, 3, 4, 5, 6, 7, 8, 9]
        assert resized.test_images is not None
        assert resized.test_images.shape == (3, 1, 8, 8)

    def test_the_same_size_returns_the_same_data_set(self) -> None:
        data = example()
        assert data.resized(4) is data
