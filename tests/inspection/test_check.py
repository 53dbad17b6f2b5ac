"""The check of a folder: every kind of image, duplicates across places, names, advice, JSON, page, command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from semco.cli.main import app
from semco.config import DataConfig
from semco.data.listing import as_entry
from semco.data.sources import load
from semco.errors import UserError
from semco.inspection import facts as facts_module
from semco.inspection.check import Check, advise, check_source, lines
from semco.inspection.facts import inspect
from semco.inspection.page import write_page


def photo(seed: int) -> Image.Image:
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((80, 64), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes, two unlabelled and two test images; three of them are copies of cat/0.png, one of dog/0.png."""
    root = tmp_path_factory.mktemp("photos")
    for name in ("cat", "dog", "unlabeled", "test/cat"):
        (root / name).mkdir(parents=True)
    for i in range(3):
        photo(i).save(root / "cat" / f"{i}.png")
        photo(10 + i).save(root / "dog" / f"{i}.png")
    photo(0).resize((40, 32)).save(root / "test/cat/leak.png")
    (root / "dog/conflict.png").write_bytes((root / "cat/0.png").read_bytes())
    photo(30).save(root / "test/cat/fine.png")
    (root / "unlabeled/copy.png").write_bytes((root / "dog/0.png").read_bytes())
    (root / "unlabeled/broken.jpg").write_bytes(b"no image")
    return root


@pytest.fixture(scope="module")
def check(photos: Path) -> Check:
    return check_source(DataConfig(source=str(photos)))


def names(check: Check, members: tuple[int, ...]) -> list[str]:
    return [Path(check.entry(i).name).name for i in members]


def test_duplicates_by_where_they_are(check: Check) -> None:
    (leak,), (conflict,), (copy,) = check.leaks, check.conflicts, check.copies
    assert sorted(names(check, leak.members)) == ["0.png", "conflict.png", "leak.png"]
    assert leak == conflict
    assert not leak.is_exact
    assert names(check, copy.members) == ["0.png", "copy.png"]
    assert copy.is_exact
    assert [check.describe(i) for i in copy.members] == ["train, dog", "unlabelled"]


def test_counts_and_reasons(check: Check) -> None:
    assert check.counts() == {
        "cat": {"train": 3, "unlabelled": 0, "test": 2, "skipped": 0},
        "dog": {"train": 4, "unlabelled": 0, "test": 0, "skipped": 0},
        "": {"train": 0, "unlabelled": 1, "test": 0, "skipped": 1},
    }
    ((position, reason),) = check.problems()
    assert names(check, (position,)) == ["broken.jpg"]
    assert reason == "it is not an image in a known format"
    assert [(each.name, each.term) for each in check.names] == [("cat", "cat"), ("dog", "dog")]


def test_the_text_says_the_worst_first(check: Check) -> None:
    text = lines(check)
    assert "2 classes, 7 train, 1 unlabelled, 2 test, 1 skipped" in text[0]
    assert text[1].startswith("leaks: 1, of which 0 are the same file (the same picture is in the test images")
    assert text[2].index("leak.png (test, cat)") < text[2].index("0.png (train, cat)")
    assert any(line == "unreadable: 1 (skipped in a run)" for line in text)
    assert text[-1].startswith("labels: 13 more are worth giving: cat 7, dog 6 ")


def test_the_counts_are_those_of_a_run(tmp_path: Path) -> None:
    for name in ("cat", "dog", "val/cat", "test/dog", "unlabeled"):
        (tmp_path / name).mkdir(parents=True)
        for i in range(3):
            photo(i).save(tmp_path / name / f"{i}.png")
        (tmp_path / name / "broken.png").write_bytes(b"no image")
    (tmp_path / "cat/cut.png").write_bytes((tmp_path / "cat/0.png").read_bytes()[:200])
    config = DataConfig(source=str(tmp_path))
    used, found = load(config), check_source(config)
    assert used.held_out is not None
    assert used.test_images is not None
    assert found.totals() == {
        "train": int(((used.train_labels >= 0) & ~used.held_out).sum()),
        "validation": int(used.held_out.sum()),
        "unlabelled": int((used.train_labels < 0).sum()),
        "test": len(used.test_images),
        "skipped": len(used.skipped),
    }
    assert found.totals()["skipped"] == 6


def test_json_and_page(check: Check, tmp_path: Path) -> None:
    found = json.loads(json.dumps(check.to_json()))
    assert (found["images"], found["num_leaks"], found["num_conflicts"], found["num_copies"]) == (11, 1, 1, 1)
    assert found["kinds"] == {"unreadable": 1}
    assert found["advice"]["wanted"] == [7, 6]
    html = write_page(check, tmp_path / "check.html").read_text()
    assert html.index("Leaks") < html.index("What to do next") < html.index("Images that cannot be read")
    assert html.count("data:image/jpeg;base64,") == 3 + 3 + 2 + 3 + 4
    assert "http:" not in html
    assert "<script" not in html


def test_the_command(photos: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["data", "check", str(photos), "--json", "--out", str(tmp_path / "a.html")])
    assert result.exit_code == 0
    assert json.loads(result.stdout.strip().splitlines()[-1])["num_leaks"] == 1
    assert (tmp_path / "a.html").stat().st_size > 1000
    with pytest.raises(UserError, match=r"'fashion-mini' is no folder of images"):
        check_source(DataConfig(source="fashion-mini"))


def save_unusual(folder: Path) -> dict[str, Path]:
    image = photo(0)
    exif = Image.Exif()
    exif[0x0112] = 6
    options: dict[str, tuple[Image.Image, str, dict[str, object]]] = {
        "animated": (image, "gif", {"save_all": True, "append_images": [photo(1)]}),
        "rotated": (image, "jpg", {"exif": exif}),
        "transparent": (image.convert("RGBA"), "png", {}),
        "palette": (image.convert("P"), "png", {}),
        "CMYK": (image.convert("CMYK"), "jpg", {}),
        "16-bit": (Image.fromarray(np.arange(80 * 64, dtype=np.uint16).reshape(64, 80)), "png", {}),
    }
    for kind, (picture, ending, how) in options.items():
        picture.save(folder / f"{kind}.{ending}", **how)  # type: ignore[arg-type]
    whole = (folder / "rotated.jpg").read_bytes()
    (folder / "truncated.jpg").write_bytes(whole[: len(whole) // 2])
    return {path.stem: path for path in folder.iterdir()}


def test_every_kind_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = save_unusual(tmp_path)
    found = {kind: inspect(as_entry(path)) for kind, path in files.items()}
    for kind, facts in found.items():
        assert kind in facts.kinds, kind
        assert facts.is_readable == (kind != "truncated")
    assert (found["rotated"].width, found["rotated"].height) == (64, 80)  # upright
    assert (found["palette"].width, found["palette"].height) == (80, 64)
    assert inspect(as_entry(tmp_path / "nothing.png")).kinds == ("unreadable",)
    monkeypatch.setattr(facts_module, "GIANT_PIXELS", 80 * 64 - 1)
    assert "giant" in inspect(as_entry(files["palette"])).kinds


@pytest.mark.parametrize(
    ("side", "size", "backbone"), [(30, 32, "wrn-28-2"), (63, 64, "wrn-28-2"), (64, 260, "efficientnet-lite2")]
)
def test_advice_on_size_and_backbone(side: int, size: int, backbone: str) -> None:
    facts = [facts_module.ImageFacts((), None, 100, each) for each in (side, side, 500)]
    advice = advise(facts, [12, 3], 5)
    assert (advice.median_side, advice.image_size, advice.backbone) == (side, size, backbone)
    assert advice.wanted == (0, 7)


def test_an_empty_name_does_not_hide_what_is_known_of_the_others(tmp_path: Path) -> None:
    for i, name in enumerate(("cat", " ", "dog")):
        (tmp_path / name).mkdir()
        photo(i).save(tmp_path / name / "0.png")
    found = check_source(DataConfig(source=str(tmp_path)))
    assert {each.name for each in found.names} == {"cat", "dog"}
    assert "the class name ' ' is empty; give its folder a name." in found.notes
