"""Photos by number, thumbnails, and the first selection."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from semco.errors import UserError
from semco.studio.photos import THUMBNAIL, Photos, UnreadableError
from semco.suggestions.diversity import DiverseSelection, diverse_order, features_of


def save(path: Path, size: tuple[int, int], colour: tuple[int, int, int], orientation: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", size, colour)
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    image.save(path, exif=exif)


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


@pytest.fixture
def photos(tmp_path: Path) -> Photos:
    root = tmp_path / "photos"
    save(root / "b.jpg", (600, 400), (200, 0, 0))
    save(root / "a" / "c.png", (100, 900), (0, 200, 0))
    save(root / "turned.jpg", (600, 300), (0, 0, 200), orientation=6)  # is shown 300 wide and 600 high
    (root / "broken.jpg").write_bytes(b"no photo")
    (root / "notes.txt").write_text("not a photo")
    return Photos(root, tmp_path / "thumbnails")


def test_photos_have_numbers_in_the_order_of_their_names(photos: Photos) -> None:
    assert photos.names == ["a/c.png", "b.jpg", "broken.jpg", "turned.jpg"]
    assert (photos.number("b.jpg"), photos.number("gone.jpg")) == (1, None)
    assert photos.numbered({"b.jpg": 7, "gone.jpg": 8}) == {1: 7}
    for number in (-1, 4):
        with pytest.raises(UserError, match="there is no photo number"):
            photos.path(number)


def test_thumbnails_are_upright_and_bounded(photos: Photos) -> None:
    assert opened(photos.thumbnail(1)).size == (336, THUMBNAIL)  # 600 x 400
    assert opened(photos.thumbnail(3)).size == (THUMBNAIL, 2 * THUMBNAIL)  # turned by its EXIF data
    assert opened(photos.thumbnail(0)).size == (THUMBNAIL, 2 * THUMBNAIL)  # the centre of 100 x 900
    assert opened(photos.preview(3)).size == (300, 600)


def test_thumbnails_are_made_once(photos: Photos, monkeypatch: pytest.MonkeyPatch) -> None:
    first = photos.thumbnail(1)
    monkeypatch.setattr("semco.studio.photos.read_image", lambda *_: pytest.fail("made again"))
    assert photos.thumbnail(1) == first


def test_a_thumbnail_that_was_cut_short_or_is_old_is_made_again(photos: Photos, tmp_path: Path) -> None:
    first = photos.thumbnail(1)
    (stored,) = (tmp_path / "thumbnails").glob("*/*.jpg")
    stored.write_bytes(first[:100])
    assert photos.thumbnail(1) == first
    save(photos.path(1), (600, 400), (0, 0, 0))
    assert photos.thumbnail(1) != first


def test_unreadable_and_missing_photos_are_sentences(photos: Photos) -> None:
    with pytest.raises(UnreadableError, match=r"broken.jpg cannot be read: it is not an image in a known format"):
        photos.thumbnail(2)
    photos.path(1).unlink()
    with pytest.raises(UnreadableError, match="restore it"):
        photos.thumbnail(1)


def test_a_full_disk_only_means_that_thumbnails_are_not_kept(photos: Photos, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("semco.studio.photos.tempfile.NamedTemporaryFile", full)
        assert opened(photos.thumbnail(1)).size == (336, THUMBNAIL)
        assert "No space left on device" in photos.cannot_store
    photos.thumbnail(1)
    assert photos.cannot_store == ""


def test_folders_without_photos(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no folder"):
        Photos(tmp_path / "none", tmp_path / "cache")
    with pytest.raises(UserError, match="contains no photos"):
        Photos(tmp_path, tmp_path / "cache")


def test_features_are_colours_and_edges_by_place() -> None:
    """A black image has neither; the left half white gives vertical edges in the two middle columns of cells only."""
    black = np.zeros((48, 48, 3), np.uint8)
    assert features_of(black).tolist() == [0.0] * (16 * 3 + 16 * 8)
    half = black.copy()
    half[:, :24] = 255
    colours, edges = np.split(features_of(half), [48])
    np.testing.assert_allclose(colours.reshape(4, 4, 3)[:, :2], 1 / np.sqrt(48), rtol=1e-5)
    np.testing.assert_allclose(colours.reshape(4, 4, 3)[:, 2:], -1 / np.sqrt(48), rtol=1e-5)
    by_cell = edges.reshape(4, 4, 8)
    assert (by_cell[:, [0, 3]] == 0).all()
    assert (by_cell[:, 1:3, 0] > 0).all()  # direction 0: brightness changes from left to right
    assert (by_cell[..., 1:] == 0).all()


def test_the_selection_has_one_of_each_kind_and_large_kinds_first() -> None:
    rng = np.random.default_rng(0)
    sizes = (20, 10, 5)
    features = np.concatenate([5 * np.eye(3)[[kind]] + rng.normal(0, 0.1, (n, 3)) for kind, n in enumerate(sizes)])
    chosen = diverse_order(features.astype(np.float32), 3)
    assert [np.searchsorted(np.cumsum(sizes), row, side="right") for row in chosen] == [0, 1, 2]
    assert diverse_order(features[:0].astype(np.float32), 3) == []


def test_the_selection_is_made_beside_the_page(tmp_path: Path) -> None:
    colours = [(250, 0, 0), (0, 250, 0), (0, 0, 250)]
    (tmp_path / "photos").mkdir()
    for i in range(10):
        image = np.zeros((32, 32, 3), np.uint8)
        image[:16] = colours[i // 3 % 3]
        Image.fromarray(image).save(tmp_path / "photos" / f"{i}.png")
    photos = Photos(tmp_path / "photos", tmp_path / "cache")
    photos.path(9).unlink()
    selection = DiverseSelection(len(photos), photos.thumbnail)
    assert sorted(selection.order()) == list(range(10))
    selection.start()
    selection.wait(60)
    assert (selection.done, sorted(selection.order())) == (10, list(range(10)))
    assert selection.order().index(9) > 2  # it cannot be read, and there are three kinds
    assert len(list((tmp_path / "cache").rglob("*.jpg"))) == 9  # the page finds its thumbnails ready
