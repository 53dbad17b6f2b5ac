"""The registered data sets: their table, their lists of class names, and every layout on a small tree."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from semco.config import REGISTERED_DATASETS, DataConfig
from semco.data.class_names import CLASS_NAMES, class_names
from semco.data.datasets import choose_classes
from semco.data.listing import Listing
from semco.data.names import simplify_name, wordnet_names
from semco.data.sources import class_attributes, list_source, load
from semco.data.sources.cub200 import ATTRIBUTES
from semco.data.sources.fetch import is_present
from semco.data.sources.rows import path_inside
from semco.errors import UserError
from semco.labels.matching.lookup import Lookup
from semco.labels.store import bundled_store

FINCH, DALMATIAN = "n01532829", "n02110341"


def save_image(path: Path, grey: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (grey, grey, grey)).save(path)


def listed(name: str, root: Path, classes: tuple[str, ...] | None = None) -> Listing:
    listing = list_source(DataConfig(source=name, root=root, classes=classes))
    assert listing is not None
    return listing


def files(names: list[str], root: Path) -> list[str]:
    return [str(Path(name).relative_to(root)) for name in names]


class TestTable:
    @pytest.mark.parametrize("name", REGISTERED_DATASETS)
    def test_names_and_counts_agree(self, name: str) -> None:
        names = class_names(name)
        assert len(names) == REGISTERED_DATASETS[name].classes
        assert len({simplify_name(each) for each in names}) == len(names)

    def test_known_names_at_their_places(self) -> None:
        assert CLASS_NAMES["mini-imagenet"][:2] == ("house finch", "robin")
        assert CLASS_NAMES["mini-imagenet"][-1] == "ear"
        assert CLASS_NAMES["cub200"][48] == "Boat_tailed_Grackle"  # 049 in the official list
        assert CLASS_NAMES["cub200"][109] == "Geococcyx"
        assert CLASS_NAMES["cub200"][199] == "Common_Yellowthroat"
        assert CLASS_NAMES["domainnet-real"][0] == "aircraft_carrier"
        assert CLASS_NAMES["domainnet-real"][344] == "zigzag"

    def test_wordnet_ids(self) -> None:
        names = wordnet_names()
        assert len(names) == 1000
        assert (names["n01440764"], names["n15075141"]) == ("tench", "toilet tissue")
        assert len({simplify_name(name) for name in names.values()}) == 1000

    def test_ids_are_looked_up_and_selected_like_names(self) -> None:
        match = Lookup(bundled_store()).find("n02110341")
        assert match is not None
        assert (match.name, match.term) == ("n02110341", "dalmatian")
        assert choose_classes(("robin", "dalmatian"), ("n02110341", "robin")) == [1, 0]

    def test_downloads_have_sizes_and_checksums_where_they_are_known(self) -> None:
        for name, dataset in REGISTERED_DATASETS.items():
            for source in dataset.files:
                assert name == "domainnet-real" or (source.size and len(source.sha256 or "") == 64)


class TestMiniImageNet:
    def test_class_folders_by_id_and_by_name_give_the_same_classes(self, tmp_path: Path) -> None:
        for layout, finch, dalmatian in (("ids", FINCH, DALMATIAN), ("names", "house finch", "Dalmatian")):
            for number in range(12):
                save_image(tmp_path / layout / finch / f"{number:02}.jpg")
                save_image(tmp_path / layout / dalmatian / f"{number:02}.jpg")
        ids, names = (listed("mini-imagenet", tmp_path / layout) for layout in ("ids", "names"))
        assert ids.class_names == names.class_names == ("house finch", "dalmatian")
        # A sixth of a class, the last in the order of the names, is for testing.
        assert files(ids.test.names, tmp_path / "ids") == [f"{c}/{n}.jpg" for c in (FINCH, DALMATIAN) for n in (10, 11)]
        assert ids.train.labels.tolist() == [0] * 10 + [1] * 10
        assert any("last sixth" in note for note in ids.notes)

    def test_few_shot_folders_are_merged(self, tmp_path: Path) -> None:
        for place in (f"train/{FINCH}", "val/n01558993", f"test/{DALMATIAN}"):
            for number in range(6):
                save_image(tmp_path / place / f"{number}.jpg")
        (tmp_path / "train/n01704323").mkdir()
        (tmp_path / "val/n01704323").mkdir()
        (tmp_path / "test/n01704323").mkdir()
        listing = listed("mini-imagenet", tmp_path)
        assert listing.class_names == ("house finch", "robin", "dalmatian")
        assert (len(listing.train), len(listing.test)) == (15, 3)

    def test_its_folder_among_others(self, tmp_path: Path) -> None:
        for place in (f"mini-imagenet/{FINCH}", f"mini-imagenet/{DALMATIAN}", "another data set/cat"):
            for number in range(6):
                save_image(tmp_path / place / f"{number}.jpg")
        assert is_present("mini-imagenet", tmp_path)
        assert not is_present("mini-imagenet", tmp_path / "another data set")
        assert listed("mini-imagenet", tmp_path).class_names == ("house finch", "dalmatian")

    def test_folders_with_all_classes_are_used_as_they_are(self, tmp_path: Path) -> None:
        for place in ("train", "test"):
            for name in (FINCH, DALMATIAN):
                save_image(tmp_path / place / name / "0.jpg")
        listing = listed("mini-imagenet", tmp_path)
        assert files(listing.test.names, tmp_path) == [f"test/{FINCH}/0.jpg", f"test/{DALMATIAN}/0.jpg"]

    def test_lists_over_one_folder(self, tmp_path: Path) -> None:
        for part, name in (("train", FINCH), ("val", "n01558993"), ("test", DALMATIAN)):
            rows = [f"{name}{number:08}.jpg" for number in range(6)]
            (tmp_path / f"{part}.csv").write_text("filename,label\n" + "".join(f"{row},{name}\n" for row in rows))
            for row in rows:
                save_image(tmp_path / "images" / row)
        data = load(DataConfig(source="mini-imagenet", root=tmp_path, image_size=8))
        assert data.class_names == ("house finch", "robin", "dalmatian")
        assert (len(data.train_labels), data.test_labels.tolist()) == (15, [0, 1, 2])  # type: ignore[union-attr]
        assert data.skipped == ()
        assert data.mean == (0.485, 0.456, 0.406)


class TestCub:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        folder = tmp_path / "CUB_200_2011"
        images = ["002.Laysan_Albatross/a.jpg", "001.Black_footed_Albatross/b.jpg", "001.Black_footed_Albatross/c.jpg"]
        images += ["002.Laysan_Albatross/d.jpg", "003.Sooty_Albatross/e.jpg"]
        for image in images:
            save_image(folder / "images" / image)
        names = ["001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross"]
        for file, lines in {
            "images.txt": images,
            "image_class_labels.txt": [2, 1, 1, 2, 3],
            "train_test_split.txt": [1, 1, 0, 0, 1],
            "classes.txt": names,
        }.items():
            (folder / file).write_text("".join(f"{i} {line}\n" for i, line in enumerate(lines, 1)))
        (folder / "attributes").mkdir()
        (folder / "attributes" / ATTRIBUTES).write_text("1 0 0\n0 1 0\n0 0 1\n")
        return tmp_path

    @pytest.mark.parametrize("inner", ["", "CUB_200_2011"])
    def test_official_split_and_labels(self, root: Path, inner: str) -> None:
        listing = listed("cub200", root / inner)
        assert listing.class_names == ("Black_footed_Albatross", "Laysan_Albatross", "Sooty_Albatross")
        assert [Path(name).name for name in listing.train.names] == ["a.jpg", "b.jpg", "e.jpg"]
        assert listing.train.labels.tolist() == [1, 0, 2]
        assert [Path(name).name for name in listing.test.names] == ["c.jpg", "d.jpg"]
        assert listing.test.labels.tolist() == [0, 1]

    def test_the_folder_itself_is_recognised(self, root: Path) -> None:
        listing = list_source(DataConfig(source=str(root)))
        assert listing is not None
        assert listing.test.labels.tolist() == [0, 1]
        assert class_attributes(DataConfig(source=str(root))) == root / "CUB_200_2011/attributes" / ATTRIBUTES
        assert class_attributes(DataConfig(source="cub200", root=root)) == listing.attributes
        assert class_attributes(DataConfig(source="cifar10", root=root)) is None

    def test_some_classes(self, root: Path) -> None:
        listing = listed("cub200", root, ("sooty albatross", "laysan albatross"))
        assert listing.class_names == ("Sooty_Albatross", "Laysan_Albatross")
        assert listing.train.labels.tolist() == [1, 0]

    def test_damaged_lists(self, root: Path) -> None:
        folder = root / "CUB_200_2011"
        (folder / "train_test_split.txt").write_text("1 1\n")
        with pytest.raises(UserError, match=r"image 2 of .*images.txt is missing in"):
            listed("cub200", root)
        (folder / "images.txt").write_text("1\n")
        with pytest.raises(UserError, match=r"images.txt, line 1: '1' does not have two columns"):
            listed("cub200", root)
        (folder / "images.txt").unlink()
        with pytest.raises(UserError, match=r"contains no CUB_200_2011/ with images.txt"):
            listed("cub200", root)


class TestDomainNet:
    def test_official_lists(self, tmp_path: Path) -> None:
        for name in ("airplane/a.jpg", "zigzag/b.jpg", "airplane/c.jpg"):
            save_image(tmp_path / "real" / name)
        (tmp_path / "real_train.txt").write_text("real/zigzag/b.jpg 344\nreal/airplane/a.jpg 1\n")
        (tmp_path / "real_test.txt").write_text("real/airplane/c.jpg 1\n")
        for listing in (listed("domainnet-real", tmp_path), list_source(DataConfig(source=str(tmp_path)))):
            assert listing is not None
            assert listing.class_names == ("airplane", "zigzag")
            assert files(listing.train.names, tmp_path) == ["real/zigzag/b.jpg", "real/airplane/a.jpg"]
            assert listing.train.labels.tolist() == [1, 0]
            assert listing.test.labels.tolist() == [0]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("real/a.jpg", "is not a path and a class number"),
            ("../../etc/passwd 1", "is not the name of a file in"),
            ("/etc/passwd 1", "is not the name of a file in"),
        ],
    )
    def test_bad_lines(self, tmp_path: Path, line: str, message: str) -> None:
        (tmp_path / "real_train.txt").write_text(f"{line}\n")
        (tmp_path / "real_test.txt").write_text("")
        with pytest.raises(UserError, match=message):
            listed("domainnet-real", tmp_path)

    def test_lists_that_are_missing(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"contains no real_train.txt and real_test.txt"):
            listed("domainnet-real", tmp_path)
        with pytest.raises(UserError, match=r"set data.root to the folder of domainnet-real"):
            list_source(DataConfig(source="domainnet-real"))


class TestFashionMnist:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        pixels = (np.arange(20 * 28 * 28) % 256).astype(np.uint8).reshape(20, 28, 28)
        for part, count in (("train", 20), ("t10k", 10)):
            images = b"\0\0\x08\x03" + np.array([count, 28, 28], ">u4").tobytes() + pixels[:count].tobytes()
            labels = b"\0\0\x08\x01" + np.array([count], ">u4").tobytes() + bytes(i % 10 for i in range(count))
            (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
            (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(labels)
        return tmp_path

    def test_compressed_and_plain_files(self, root: Path) -> None:
        data = load(DataConfig(source="fashion-mnist", root=root))
        assert data.train_images.shape == (20, 1, 28, 28)
        assert data.train_images[1, 0, 0, :3].tolist() == [784 % 256, 785 % 256, 786 % 256]
        assert data.train_labels.tolist() == [i % 10 for i in range(20)]
        assert data.class_names[9] == "ankle boot"
        assert data.test_labels is not None

    @pytest.mark.parametrize("content", [b"", b"\0\0\x08\x03", b"no gzip", b"\0\0\x08\x03" + b"\xff" * 12])
    def test_damaged_files(self, root: Path, content: bytes) -> None:
        (root / "train-labels-idx1-ubyte").write_bytes(content)
        with pytest.raises(UserError, match="is not an IDX file like the official one"):
            load(DataConfig(source="fashion-mnist", root=root))
        (root / "train-images-idx3-ubyte.gz").write_bytes(content)
        with pytest.raises(UserError, match=r"is damaged|is not an IDX file"):
            load(DataConfig(source="fashion-mnist", root=root))

    def test_missing_files(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"contains no train-images-idx3-ubyte.gz"):
            load(DataConfig(source="fashion-mnist", root=tmp_path))
        with pytest.raises(UserError, match=r"set data.root"):
            load(DataConfig(source="fashion-mnist"))


@pytest.mark.parametrize("name", ["", "..", "a/../../b", "/a", "a\0b"])
def test_names_that_lead_out_of_the_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not the name of a file in"):
        path_inside(tmp_path, name)
