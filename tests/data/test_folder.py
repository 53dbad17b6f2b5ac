"""Folders of class folders: the images found, their order, and error messages."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from semco.config import DataConfig
from semco.data.class_names import class_names
from semco.data.folder import image_files, list_folder, read_folder
from semco.data.storage import decoder as decode_part
from semco.errors import UserError


def save_image(path: Path, grey: int = 0, size: int = 8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (size, size), (grey, grey, grey)).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes, an unlabelled image and a test set; each image has its own grey level."""
    for grey, name in enumerate(["cat/b.png", "cat/a.PNG", "cat/more/c.avif", "dog/1.png", "dog/2.webp"]):
        save_image(tmp_path / name, 10 * grey)
    save_image(tmp_path / "unlabeled/x.png", 100)
    save_image(tmp_path / "test/cat/t.png", 200)
    save_image(tmp_path / "test/Dog/u.png", 210)
    return tmp_path


def names(paths: tuple[str, ...] | None, root: Path) -> list[str]:
    return [str(Path(p).relative_to(root)) for p in paths or ()]


def test_images_are_found_in_order(photos: Path) -> None:
    data = read_folder(photos, DataConfig())
    assert data.class_names == ("cat", "dog")
    assert names(data.train_paths, photos) == [
        "cat/a.PNG",
        "cat/b.png",
        "cat/more/c.avif",
        "dog/1.png",
        "dog/2.webp",
        "unlabeled/x.png",
    ]
    assert data.train_labels.tolist() == [0, 0, 0, 1, 1, -1]
    assert data.train_images[:, 0, 4, 4].tolist() == [10, 0, 20, 30, 40, 100]
    assert names(data.test_paths, photos) == ["test/Dog/u.png", "test/cat/t.png"]
    assert data.test_labels is not None
    assert data.test_labels.tolist() == [1, 0]
    assert data.skipped == ()
    assert data.ignored == {}


def test_class_folders_in_train(tmp_path: Path) -> None:
    for name in ("train/cat/a.png", "train/dog/b.png", "train/unlabelled/c.png", "test/cat/d.png", "unlabeled/e.png"):
        save_image(tmp_path / name)
    data = read_folder(tmp_path, DataConfig())
    assert data.class_names == ("cat", "dog")
    assert data.train_labels.tolist() == [0, 1, -1, -1]
    assert data.test_labels is not None
    assert data.test_labels.tolist() == [0]


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    for name in ("bus/a.png", "train/b.png", "train/steam/c.png"):
        save_image(tmp_path / name)
    assert list_folder(tmp_path).class_names == ("bus", "train")
    assert list_folder(tmp_path).train.labels.tolist() == [0, 1, 1]


def test_no_test_folder(tmp_path: Path) -> None:
    for name in ("cat/a.png", "dog/b.png"):
        save_image(tmp_path / name)
    data = read_folder(tmp_path, DataConfig())
    assert data.test_images is None
    assert data.test_labels is None
    assert data.test_paths is None


def test_other_files_are_counted_and_hidden_ones_are_not(photos: Path) -> None:
    (photos / "notes.txt").write_text("x")
    (photos / "cat/notes.txt").write_text("x")
    (photos / "test/list.csv").write_text("x")
    (photos / "cat/.hidden.png").write_text("x")
    (photos / ".cache").mkdir()
    (photos / "__MACOSX").mkdir()
    save_image(photos / "cat/.thumbnails/a.png")
    data = read_folder(photos, DataConfig())
    assert len(data.train_labels) == 6
    assert data.ignored == {".txt": 2, ".csv": 1}


def test_selected_classes_in_the_order_given(photos: Path) -> None:
    save_image(photos / "emu/e.png", 60)
    save_image(photos / "test/emu/t.png", 220)
    data = read_folder(photos, DataConfig(classes=("EMU", "cat")))
    assert data.class_names == ("emu", "cat")
    assert data.train_labels.tolist() == [0, 1, 1, 1, -1]
    assert names(data.test_paths, photos) == ["test/cat/t.png", "test/emu/t.png"]
    assert data.test_labels is not None
    assert data.test_labels.tolist() == [1, 0]


def test_image_size_from_the_images_or_the_configuration(tmp_path: Path) -> None:
    for name in ("cat/a.png", "dog/b.png"):
        save_image(tmp_path / name, size=23)
    assert read_folder(tmp_path, DataConfig()).image_size == (24, 24)
    assert read_folder(tmp_path, DataConfig(image_size=40)).image_size == (40, 40)


def test_progress_is_reported(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_part, "CHUNK_BYTES", 4 * 3 * 8 * 8)
    seen: list[tuple[str, int, int]] = []
    read_folder(photos, DataConfig(), lambda *progress: seen.append(progress))
    assert seen == [
        ("reading training images", 4, 6),
        ("reading training images", 6, 6),
        ("reading test images", 2, 2),
    ]


class TestUnreadable:
    def test_unreadable_images_are_skipped_and_listed(self, photos: Path) -> None:
        (photos / "cat/b.png").write_bytes(b"no image")
        (photos / "test/cat/t.png").write_bytes(b"")
        data = read_folder(photos, DataConfig())
        assert names(data.skipped, photos) == [
            "cat/b.png (it is not an image in a known format)",
            "test/cat/t.png (it is not an image in a known format)",
        ]
        assert data.train_labels.tolist() == [0, 0, 1, 1, -1]
        assert data.train_images[:, 0, 4, 4].tolist() == [10, 20, 30, 40, 100]
        assert len(data.train_paths or ()) == 5
        assert data.test_labels is not None
        assert data.test_labels.tolist() == [1]

    def test_strict_raises_an_error_that_names_the_file(self, photos: Path) -> None:
        (photos / "dog/1.png").write_bytes(b"no image")
        with pytest.raises(UserError, match=r"image .*dog/1\.png cannot be read"):
            read_folder(photos, DataConfig(strict=True))

    def test_a_whole_class(self, photos: Path) -> None:
        for name in ("1.png", "2.webp"):
            (photos / "dog" / name).write_bytes(b"no image")
        with pytest.raises(UserError, match=r"no image of class 'dog' .* can be read"):
            read_folder(photos, DataConfig())

    def test_everything(self, tmp_path: Path) -> None:
        for name in ("cat/a.png", "dog/b.png"):
            save_image(tmp_path / name)
            (tmp_path / name).write_bytes(b"")
        with pytest.raises(UserError, match="none of the 2 images"):
            read_folder(tmp_path, DataConfig())

    def test_no_test_set_if_no_test_image_can_be_read(self, photos: Path) -> None:
        (photos / "test/cat/t.png").write_bytes(b"")
        (photos / "test/Dog/u.png").write_bytes(b"")
        data = read_folder(photos, DataConfig())
        assert data.test_images is None
        assert len(data.skipped) == 2


class TestNames:
    """Every name that the file system can hold is read and looked up."""

    def test_a_file_name_that_is_not_utf_8(self, photos: Path) -> None:
        name = os.fsdecode(b"caf\xe9.png")
        save_image(photos / "cat" / name, 70)
        data = read_folder(photos, DataConfig())
        assert names(data.train_paths, photos)[2] == f"cat/{name}"
        assert data.train_images[2, 0, 4, 4] == 70
        (photos / "dog" / name).write_bytes(b"no image")
        assert names(read_folder(photos, DataConfig()).skipped, photos) == [
            f"dog/{name} (it is not an image in a known format)"
        ]

    def test_a_class_folder_whose_name_is_not_utf_8(self, photos: Path) -> None:
        name = os.fsdecode(b"caf\xe9")
        save_image(photos / name / "a.png")
        save_image(photos / "test" / name / "a.png")
        data = read_folder(photos, DataConfig())
        assert data.class_names == ("caf\udce9", "cat", "dog")
        assert class_names(str(photos)) == data.class_names
        assert read_folder(photos, DataConfig(classes=(name, "cat"))).class_names == (name, "cat")

    @pytest.mark.parametrize("name", ["a\nb", "\x1b[31mred", "a,b", "日本", "e\u0301", "x" * 250, "'\"", "\u202eabc"])
    def test_odd_names(self, photos: Path, name: str) -> None:
        save_image(photos / name / f"{name[:200]}.png")
        data = read_folder(photos, DataConfig())
        assert name in data.class_names
        assert str(photos / name / f"{name[:200]}.png") in (data.train_paths or ())


class TestNoHang:
    def test_named_pipes_sockets_and_devices_are_skipped(self, photos: Path) -> None:
        os.mkfifo(photos / "cat/pipe.png")
        (photos / "dog/zero.png").symlink_to("/dev/zero")
        os.mkfifo(photos / "cat/pipe.txt")
        os.mkfifo(photos / "pipe.png")
        data = read_folder(photos, DataConfig())
        assert names(data.skipped, photos) == [
            "cat/pipe.png (is a named pipe, not a regular file; give the path of a regular file)",
            "dog/zero.png (is a device, not a regular file; give the path of a regular file)",
        ]
        assert len(data.train_labels) == 6

    def test_a_dangling_link_is_skipped(self, photos: Path) -> None:
        (photos / "cat/link.png").symlink_to("nothing")
        (skipped,) = read_folder(photos, DataConfig()).skipped
        assert "link.png (is missing" in skipped

    def test_a_link_to_itself_is_skipped(self, photos: Path) -> None:
        (photos / "cat/link.png").symlink_to("link.png")
        data = read_folder(photos, DataConfig())
        (skipped,) = data.skipped
        assert "cat/link.png (" in skipped
        assert len(data.train_labels) == 6


def test_images_in_no_class_folder_are_counted_with_the_way_out(photos: Path) -> None:
    assert not any("no class folder" in note for note in list_folder(photos).notes)
    for name in ("1.jpg", "2.JPG", "test/3.png", "notes.txt"):
        save_image(photos / name) if not name.endswith("txt") else (photos / name).write_text("x")
    listing = list_folder(photos)
    assert listing.notes == (
        f"3 image(s) in no class folder are not used: put them into {photos}/unlabeled/, where they are used without "
        f"a label, or label them on a page (`semco studio {photos}`)",
    )


class TestRefused:
    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"there is no folder .*nowhere"):
            list_folder(tmp_path / "nowhere")

    def test_an_empty_folder(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="contains no class folder: create one folder per class"):
            list_folder(tmp_path)

    def test_images_without_class_folders(self, tmp_path: Path) -> None:
        save_image(tmp_path / "a.png")
        with pytest.raises(UserError, match="contains no class folder") as caught:
            list_folder(tmp_path)
        assert f"put photos without a label into unlabeled/; or label photos on a page: semco studio {tmp_path}" in str(
            caught.value
        )

    def test_one_class(self, tmp_path: Path) -> None:
        save_image(tmp_path / "cat/a.png")
        save_image(tmp_path / "test/cat/a.png")
        with pytest.raises(UserError, match=r"contains one class folder \(cat\)"):
            list_folder(tmp_path)

    def test_no_class_has_images(self, tmp_path: Path) -> None:
        (tmp_path / "cat").mkdir()
        (tmp_path / "dog").mkdir()
        with pytest.raises(UserError, match=r"fewer than two class folders of .* contain an image"):
            list_folder(tmp_path)

    def test_a_test_class_that_is_not_trained(self, photos: Path) -> None:
        save_image(photos / "test/cta/a.png")
        with pytest.raises(UserError, match=r"unknown class in .*test: 'cta'; did you mean 'cat'\?"):
            list_folder(photos)

    def test_an_unknown_class(self, photos: Path) -> None:
        with pytest.raises(UserError, match=r"unknown class 'dgo'; did you mean 'dog'\?"):
            list_folder(photos, ("cat", "dgo"))


def test_a_class_without_images_is_left_out_with_a_note(photos: Path) -> None:
    (photos / "bee").mkdir()
    (photos / "bee/notes.txt").write_text("soon")
    save_image(photos / "test/bee/t.png")
    listing = list_folder(photos)
    assert listing.class_names == ("cat", "dog")
    assert listing.train.labels.tolist() == [0, 0, 0, 1, 1, -1]
    assert sorted(listing.test.labels) == [0, 1]
    assert listing.notes == ("1 class(es) without a labelled training image are left out: bee",)


@pytest.mark.parametrize("train", ["train/", ""])
def test_images_of_a_validation_folder_are_held_out(tmp_path: Path, train: str) -> None:
    for name in (f"{train}cat/a.png", f"{train}dog/b.png", "val/cat/c.png", "val/Dog/d.png", "test/cat/e.png"):
        save_image(tmp_path / name)
    data = read_folder(tmp_path, DataConfig())
    assert data.class_names == ("cat", "dog")
    assert data.train_labels.tolist() == [0, 1, 1, 0]
    assert data.held_out is not None
    assert data.held_out.tolist() == [False, False, True, True]
    assert data.notes == ("the 2 images of the validation folder are for validation only",)


def test_a_class_may_be_called_val(tmp_path: Path) -> None:
    for name in ("cat/a.png", "val/b.png"):
        save_image(tmp_path / name)
    assert list_folder(tmp_path).class_names == ("cat", "val")


def test_folders_that_hold_only_the_data_are_looked_into(tmp_path: Path) -> None:
    for name in ("photos/mine/cat/a.png", "photos/mine/dog/b.png", "photos/mine/test/cat/c.png"):
        save_image(tmp_path / name)
    listing = list_folder(tmp_path)
    assert listing.class_names == class_names(str(tmp_path)) == ("cat", "dog")
    assert listing.test.names == [str(tmp_path / "photos/mine/test/cat/c.png")]


def test_wordnet_ids_become_names(tmp_path: Path) -> None:
    for name in ("n01532829/a.png", "n02110341/b.png", "my cat/c.png", "test/dalmatian/d.png", "test/n01532829/e.png"):
        save_image(tmp_path / name)
    listing = list_folder(tmp_path, ("house finch", "dalmatian", "my cat"))
    assert listing.class_names == ("house finch", "dalmatian", "my cat")
    assert listing.train.labels.tolist() == [0, 1, 2]
    assert listing.test.labels.tolist() == [1, 0]
    assert "n01532829 is 'house finch'" in listing.notes[0]


def test_the_order_of_files_is_that_of_sorted_paths(tmp_path: Path) -> None:
    for name in ("a/x.png", "a-b/x.png", "a.png", "a/b/c.png", "a/b.png", "B/x.png", "ä/x.png", "a b.png"):
        save_image(tmp_path / name)
    images = [Path(image) for image in image_files(tmp_path)[0]]
    assert images == sorted(tmp_path.rglob("*.png"))
    assert len(images) == 8


@pytest.mark.parametrize("ending", ["bmp", "gif", "jpeg", "tif", "tiff"])
def test_image_formats(tmp_path: Path, ending: str) -> None:
    for name in ("cat/a", "dog/b"):
        save_image(tmp_path / f"{name}.{ending}", 50)
    assert read_folder(tmp_path, DataConfig()).train_images[:, :, 4, 4].tolist() == [[50, 50, 50]] * 2


def test_links_to_files_are_followed_and_links_to_folders_are_not(photos: Path) -> None:
    (photos / "cat/again").symlink_to(photos / "cat")
    (photos / "cat/link.png").symlink_to(photos / "dog/1.png")
    assert np.bincount(np.array(list_folder(photos).train.labels) + 1).tolist() == [1, 4, 2]


@pytest.mark.parametrize("folder", ["other", "Other", "none of these", "None_of_these"])
def test_photos_of_none_of_the_classes(tmp_path: Path, folder: str) -> None:
    for name in ("cat/a.png", "zebra/b.png", f"{folder}/c.png", "n01532829/d.png", "test/other/e.png"):
        save_image(tmp_path / name)
    listing = list_folder(tmp_path)
    assert sorted(listing.class_names) == ["cat", "house finch", "none of these", "zebra"]
    place = listing.class_names.index("none of these")
    assert [listing.train.names[i] for i, label in enumerate(listing.train.labels) if label == place] == [
        str(tmp_path / folder / "c.png")
    ]
    assert listing.test.labels.tolist() == [place]
    assert list_folder(tmp_path, ["cat", "other"]).class_names == ("cat", "none of these")


def test_two_folders_for_none_of_the_classes_are_named(tmp_path: Path) -> None:
    for name in ("cat/a.png", "other/b.png", "none of these/c.png"):
        save_image(tmp_path / name)
    with pytest.raises(UserError, match="'none of these' and 'other' are both for photos of none of the classes"):
        list_folder(tmp_path)
