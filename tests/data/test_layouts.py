"""Layouts of people's own images: tables of labels, Hugging Face folders, shards, unlabelled images from elsewhere."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet
from typer.testing import CliRunner

from semco.cli.main import app
from semco.config import DataConfig
from semco.data.listing import FILES, Entry, Files, Listing, Part, as_entry
from semco.data.sources import list_source, load
from semco.data.sources.label_file import FORMATS, Finder, coco, fiftyone, label_studio, labels_of, read_labels
from semco.data.sources.layouts import list_images
from semco.errors import UserError


def png(grey: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (grey, grey, grey)).save(stream, "PNG")
    return stream.getvalue()


def save(path: Path, grey: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(grey))


def listed(root: Path, **fields: object) -> Listing:
    listing = list_source(DataConfig.model_validate({"source": str(root), **fields}))
    assert listing is not None
    return listing


def short(listing: Listing, root: Path) -> dict[str, str | None]:
    """Return the class of each training image by its relative path."""
    names = (*listing.class_names, None)
    pairs = zip(listing.train.names, listing.train.labels, strict=True)
    return {str(Path(name).relative_to(root)): names[label] for name, label in pairs}


class TestLabelsFile:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        for number, name in enumerate(("a.png", "b.png", "deep/c.png", "deep/d.png", "e.png")):
            save(tmp_path / "photos" / name, 10 * number)
        return tmp_path / "photos"

    @pytest.mark.parametrize(
        ("file", "text"),
        [
            ("labels.csv", "path,label\na.png,cat\ndeep/c.png,dog\ne.png,\n"),
            ("labels.csv", "a.png,cat\ndeep/c.png,dog\n"),
            ("labels.csv", "id;Label;FileName\n1;cat;a.png\n2;dog;deep/c.png\n"),
            ("labels.tsv", "file_name\tclass\na.png\tcat\ndeep/c.png\tdog\n"),
            ("labels.jsonl", '{"file_name": "a.png", "label": "cat"}\n{"file_name": "deep/c.png", "label": "dog"}\n'),
            ("labels.csv", "\ufeffpath,label\r\n./a.png,cat\r\ndeep/../deep/c.png,dog\r\n"),
        ],
    )
    def test_listed_images_are_labelled_and_the_others_are_not(self, root: Path, file: str, text: str) -> None:
        (root / file).write_text(text, encoding="utf-8")
        listing = listed(root, labels_from=root / file)
        assert listing.class_names == ("cat", "dog")
        expected = {"a.png": "cat", "deep/c.png": "dog", "b.png": None, "deep/d.png": None, "e.png": None}
        assert short(listing, root) == expected
        assert listing.notes[-1].startswith("2 labels from labels.")
        data = load(DataConfig(source=str(root), labels_from=root / file, image_size=8))
        assert dict(zip(map(Path, data.train_paths or ()), data.train_images[:, 0, 0, 0].tolist(), strict=True)) == {
            root / name: 10 * i for i, name in enumerate(("a.png", "b.png", "deep/c.png", "deep/d.png", "e.png"))
        }

    def test_the_order_is_that_of_the_files_whatever_is_labelled(self, root: Path) -> None:
        """So the images of a second round are those of the first, and what was computed from them is used again."""
        orders = []
        for text in ("e.png,cat\na.png,dog\n", "deep/c.png,dog\nb.png,cat\na.png,dog\n"):
            (root / "l.csv").write_text(f"path,label\n{text}")
            orders.append(list(short(listed(root, labels_from=root / "l.csv"), root)))
        assert orders[0] == orders[1] == sorted(orders[0])

    def test_a_split_column(self, root: Path) -> None:
        (root / "l.csv").write_text(
            "path,label,split\na.png,cat,train\nb.png,dog,train\ne.png,cat,test\ndeep/c.png,dog,val\n"
        )
        listing = listed(root, labels_from=root / "l.csv")
        assert listing.test.labels.tolist() == [0]
        assert listing.train.labels.tolist() == [0, 1, 1, -1]
        assert listing.train.held_out.tolist() == [0, 0, 1, 0]

    def test_a_table_elsewhere_with_absolute_paths(self, root: Path) -> None:
        file = root.parent / "mine.csv"
        file.write_text(f"path,label\n{root}/a.png,cat\nphotos/../photos/b.png,dog\n")
        assert short(listed(root, labels_from=file), root)["b.png"] == "dog"

    def test_an_image_that_is_missing_is_skipped(self, root: Path) -> None:
        (root / "l.csv").write_text("path,label\na.png,cat\nb.png,dog\ngone.png,dog\n")
        data = load(DataConfig(source=str(root), labels_from=root / "l.csv"))
        assert [skipped.partition(" ")[0] for skipped in data.skipped] == [str(root / "gone.png")]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("path,label\n../../etc/passwd,cat\n", "is not in .*photos: list images of that folder only"),
            ("path,label\n/etc/passwd,cat\n", "is not in .*photos"),
            ("path,label\na.png\n", r"row 2: \['a.png'\] has too few columns"),
            ("path,label\na.png,cat\na.png,dog\n", r"names 'a.png' twice"),
            ("path,label\na.png,cat\nb.png,cat\n", r"has labels of 1 class\(es\) \(cat\)"),
            ("path,label\n", "has no row with a path and a label"),
            ("path,weight\na.png,1\n", "has no column of labels"),
            ("label,weight\ncat,1\n", "has no column of paths"),
            ("a.png\nb.png\n", "has one column"),
            ("", "has no row"),
        ],
    )
    def test_bad_tables(self, root: Path, text: str, message: str) -> None:
        (root / "l.csv").write_text(text)
        with pytest.raises(UserError, match=message):
            listed(root, labels_from=root / "l.csv")

    def test_no_table(self, root: Path) -> None:
        with pytest.raises(UserError, match="there is no file of labels"):
            listed(root, labels_from=root / "l.csv")


class TestMetadata:
    def test_one_table(self, tmp_path: Path) -> None:
        for name in ("a.png", "b.png", "c.png"):
            save(tmp_path / name)
        (tmp_path / "metadata.csv").write_text("file_name,label\na.png,cat\nb.png,dog\n")
        assert short(listed(tmp_path), tmp_path) == {"a.png": "cat", "b.png": "dog", "c.png": None}

    def test_tables_of_the_parts(self, tmp_path: Path) -> None:
        for part, names in {"train": "ab", "validation": "c", "test": "d"}.items():
            rows = [{"file_name": f"{n}.png", "label": "cat" if n in "acd" else "dog"} for n in names]
            for name in names:
                save(tmp_path / part / f"{name}.png")
            (tmp_path / part / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
        listing = listed(tmp_path)
        assert short(listing, tmp_path) == {"train/a.png": "cat", "train/b.png": "dog", "validation/c.png": "cat"}
        assert [Path(n).name for n, out in zip(listing.train.names, listing.train.held_out, strict=True) if out] == [
            "c.png"
        ]
        assert listing.test.labels.tolist() == [0]

    def test_paths_that_name_their_part(self, tmp_path: Path) -> None:
        (tmp_path / "metadata.csv").write_text("file_name,label\ntrain/a.png,cat\ntrain/b.png,dog\ntest/c.png,cat\n")
        listing = listed(tmp_path)
        assert (listing.train.labels.tolist(), listing.test.labels.tolist()) == ([0, 1], [0])

    @pytest.mark.parametrize("line", ["[1]", "{", '{"label": "cat"}', "[" * 100_000])
    def test_a_damaged_line(self, tmp_path: Path, line: str) -> None:
        (tmp_path / "metadata.jsonl").write_text(line)
        with pytest.raises(UserError, match=r"line 1: .* is not a JSON object with a file_name"):
            listed(tmp_path)


def image_table(labels: list[object], names: list[str] | None = None, plain: bool = False) -> pa.Table:
    images = [png(10 * i) if plain else {"bytes": png(10 * i), "path": None} for i in range(len(labels))]
    table = pa.table({"image": images, "label": labels})
    features = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    return table if names is None else table.replace_schema_metadata({"huggingface": json.dumps(features)})


class TestTables:
    @pytest.mark.parametrize("plain", [False, True])
    def test_parquet_files(self, tmp_path: Path, plain: bool) -> None:
        (tmp_path / "data").mkdir()
        train = image_table([1, 0, -1, 1], ["cat", "dog"], plain)
        parquet.write_table(train, tmp_path / "data/train-00000-of-00001.parquet", row_group_size=3)
        parquet.write_table(image_table([0], ["cat", "dog"], plain), tmp_path / "data/test-00000-of-00001.parquet")
        data = load(DataConfig(source=str(tmp_path)))
        assert data.class_names == ("cat", "dog")
        assert data.train_labels.tolist() == [1, 0, -1, 1]
        assert data.train_images[:, 0, 0, 0].tolist() == [0, 10, 20, 30]
        assert data.test_labels is not None
        assert data.test_labels.tolist() == [0]

    def test_arrow_files_that_were_saved_to_disk(self, tmp_path: Path) -> None:
        for part, labels in {"train": [0, 1, 1], "test": [1]}.items():
            (tmp_path / part).mkdir()
            table = image_table(labels)
            with (
                pa.OSFile(str(tmp_path / part / "data-00000-of-00001.arrow"), "wb") as sink,
                pa.ipc.new_stream(sink, table.schema) as writer,
            ):
                writer.write_table(table, max_chunksize=2)
            info = {"features": {"label": {"names": ["cat", "dog"]}}}
            (tmp_path / part / "dataset_info.json").write_text(json.dumps(info))
        (tmp_path / "dataset_dict.json").write_text("{}")
        data = load(DataConfig(source=str(tmp_path)))
        assert data.class_names == ("cat", "dog")
        assert data.train_labels.tolist() == [0, 1, 1]
        assert data.train_images[:, 0, 0, 0].tolist() == [0, 10, 20]
        entry = list_source(DataConfig(source=str(tmp_path))).train[2]  # type: ignore[union-attr]
        with pickle.loads(pickle.dumps(entry)).open() as stream:  # entries travel to other processes
            assert stream.read() == png(20)

    def test_texts_as_labels(self, tmp_path: Path) -> None:
        parquet.write_table(image_table(["cat", "dog", None]), tmp_path / "all.parquet")
        assert listed(tmp_path).train.labels.tolist() == [0, 1, -1]

    def test_a_damaged_file_is_left_out_with_a_note(self, tmp_path: Path) -> None:
        parquet.write_table(image_table(["cat", "dog"]), tmp_path / "a.parquet")
        (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-20])
        listing = listed(tmp_path)
        assert len(listing.train) == 2
        assert any("b.parquet cannot be read" in note for note in listing.notes)

    def test_damaged_offsets_do_not_crash_the_process(self, tmp_path: Path) -> None:
        images = [png(0), png(10)]
        table = pa.table({"image": pa.array(images, pa.binary()), "label": ["cat", "dog"]})
        stream = io.BytesIO()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        ends = [0, len(images[0]), len(images[0]) + len(images[1])]
        right, wrong = (b"".join(n.to_bytes(4, "little") for n in each) for each in (ends, [0, 2**30, 2**31 - 1]))
        assert stream.getvalue().count(right) == 1
        (tmp_path / "train.arrow").write_bytes(stream.getvalue().replace(right, wrong))
        with pytest.raises(UserError, match="none of the 2 images"):
            load(DataConfig(source=str(tmp_path), image_size=8))

    def test_no_images(self, tmp_path: Path) -> None:
        parquet.write_table(pa.table({"label": [0, 1]}), tmp_path / "a.parquet")
        with pytest.raises(UserError, match=r"a\.parquet has no column of images \(label\)"):
            listed(tmp_path)


def write_shard(path: Path, files: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


class TestShards:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        first = {"0.png": png(0), "0.cls": b"1\n", "1.cls": b"0", "1.png": png(10), "2.png": png(20)}
        write_shard(tmp_path / "train-0000.tar", first)
        write_shard(tmp_path / "train-0001.tar", {"3.png": png(30), "3.json": b'{"label": 1, "id": 5}'})
        write_shard(tmp_path / "test-0000.tar", {"4.png": png(40), "4.cls": b"0"})
        (tmp_path / "classes.txt").write_text("cat\ndog\n")
        return tmp_path

    def test_images_and_labels(self, root: Path) -> None:
        data = load(DataConfig(source=str(root)))
        assert data.class_names == ("cat", "dog")
        assert data.train_labels.tolist() == [1, 0, -1, 1]
        assert data.train_images[:, 0, 0, 0].tolist() == [0, 10, 20, 30]
        assert data.test_labels is not None
        assert data.test_labels.tolist() == [0]
        assert (data.train_paths or ())[3] == str(root / "train-0001.tar/3.png")

    def test_a_damaged_shard_is_read_up_to_the_damage(self, root: Path) -> None:
        content = (root / "train-0000.tar").read_bytes()
        (root / "train-0000.tar").write_bytes(content[:1024] + b"x" * 700)
        listing = listed(root)
        assert [Path(name).name for name in listing.train.names] == ["0.png", "3.png"]
        assert listing.test.labels.tolist() == [0]

    def test_an_image_that_is_cut_off_is_skipped(self, root: Path) -> None:
        listing = listed(root)
        (root / "train-0001.tar").write_bytes((root / "train-0001.tar").read_bytes()[:520])
        with listing.train[3].open() as stream:
            assert len(stream.read()) == 8

    def test_texts_as_labels_and_special_members(self, tmp_path: Path) -> None:
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            link = tarfile.TarInfo("x.png")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
            for name, content in {"a.png": png(0), "a.cls": b"cat", "b.png": png(1), "b.cls": b"dog"}.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        listing = listed(tmp_path)
        assert listing.class_names == ("cat", "dog")
        assert [Path(name).name for name in listing.train.names] == ["a.png", "b.png"]


class TestUnlabelled:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        save(tmp_path / "photos/cat/a.png")
        save(tmp_path / "photos/dog/b.png")
        return tmp_path

    def test_a_folder_elsewhere(self, root: Path) -> None:
        save(root / "more/deep/c.png", 50)
        data = load(DataConfig(source=str(root / "photos"), unlabeled=root / "more"))
        assert data.train_labels.tolist() == [0, 1, -1]
        assert data.train_images[2, 0, 0, 0] == 50

    def test_a_shard(self, root: Path) -> None:
        write_shard(root / "more.tar", {"c.png": png(60), "c.cls": b"cat"})
        data = load(DataConfig(source=str(root / "photos"), unlabeled=root / "more.tar"))
        assert data.train_labels.tolist() == [0, 1, -1]
        assert data.train_images[2, 0, 0, 0] == 60

    def test_a_list_of_many_entries_is_read_quickly(self, root: Path) -> None:
        """A tenth of a million entries over a few files, within a tenth of the time for a million."""
        save(root / "more/c.png")
        (root / "list.txt").write_text("".join(f"more/{i % 300}.png\n" for i in range(100_000)))
        start = time.process_time()  # waiting for a processor does not count
        listing = listed(root / "photos", unlabeled=root / "list.txt")
        assert time.process_time() - start < 5
        assert len(listing.train) == 100_002
        assert listing.train.names[2] == str(root / "more/0.png")
        assert listing.train.names[302] is listing.train.names[2]

    def test_sources_that_would_ignore_it(self, root: Path) -> None:
        with pytest.raises(UserError, match=r"data\.unlabeled is for image files, and fashion-mini has arrays"):
            load(DataConfig(source="fashion-mini", unlabeled=root))
        with pytest.raises(UserError, match=r"data\.labels_from is for folders of images, and fashion-mini"):
            load(DataConfig(source="fashion-mini", labels_from=root / "x.csv"))

    @pytest.mark.parametrize("name", ["nothing", "notes.csv"])
    def test_nothing_there(self, root: Path, name: str) -> None:
        (root / "notes.csv").touch()
        with pytest.raises(UserError, match=r"there is no folder, \.tar file or list"):
            listed(root / "photos", unlabeled=root / name)


def test_ten_thousand_classes(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(png(0))
    rows = "".join(f"c/{i}.png,class {i}\n" for i in range(10_000))
    (tmp_path / "labels.csv").write_text(f"path,label\n{rows}")
    listing = listed(tmp_path, labels_from=tmp_path / "labels.csv")
    assert len(listing.class_names) == 10_000
    assert sorted(listing.train.labels) == [-1, *range(10_000)]


def test_a_part_gives_back_what_was_added(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"pixels")
    other = Files()
    part = Part()
    part.add_files([str(tmp_path / "a.png"), "b.png"], 3, held_out=True)
    part.add(Entry("c.tar/c.png", other, 512, 7))
    assert [str(entry) for entry in part] == [str(tmp_path / "a.png"), "b.png", "c.tar/c.png"]
    assert part.labels.tolist() == [3, 3, -1]
    assert part.held_out.tolist() == [1, 1, 0]
    assert part[2] == Entry("c.tar/c.png", other, 512, 7)
    with part[0].open() as stream:
        assert stream.read() == b"pixels"
    assert part[0].file() == tmp_path / "a.png"
    assert part.stores == [FILES, other]


def test_an_entry_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is missing"):
        as_entry(tmp_path / "nothing.png").open()


def test_a_million_entries_take_less_than_300_mib() -> None:
    """Measured on a tenth of them; each has a path of its own, with 60 characters."""
    tracemalloc.start()
    part = Part()
    part.add_files(f"/photos/of/a/person/with/long/folder/names/{i:012d}.jpg" for i in range(100_000))
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(part) == 100_000
    assert 10 * used < 300 * 2**20


LABELS = [("a/1.jpg", "cat"), ("b/2.png", None), ("3.jpg", "dog")]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for name, _ in [*LABELS, ("c/4.jpg", None)]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(root / name)
    return root


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip(name: str, photos: Path, tmp_path: Path) -> None:
    """What is written for a tool is read from its file as the labels that they were."""
    source = tmp_path / "labels.csv"
    source.write_text(FORMATS["csv"](LABELS), encoding="utf-8")
    out = tmp_path / f"out{'.csv' if name == 'csv' else '.json'}"
    command = ["data", "convert", str(photos), "--labels-from", str(source), "--to", name, "--out", str(out)]
    assert "4 images, 2 labels" in CliRunner().invoke(app, command).output
    listing = list_images(photos, DataConfig(source=str(photos), labels_from=out))
    assert dict(labels_of(listing, photos)) == {**dict(LABELS), "c/4.jpg": None}


def test_what_is_written() -> None:
    assert coco(LABELS)["annotations"] == [
        {"id": 1, "image_id": 1, "category_id": 1},
        {"id": 2, "image_id": 3, "category_id": 2},
    ]
    assert fiftyone(LABELS) == {"classes": ["cat", "dog"], "labels": {"a/1": 0, "b/2": None, "3": 1}}
    assert label_studio(LABELS)[1] == {"data": {"image": "/data/local-files/?d=b/2.png"}, "annotations": []}
    with pytest.raises(UserError, match="differ only in their ending"):
        fiftyone([("1.jpg", "a"), ("1.png", "a")])


def annotated(image: str, *choices: str, cancelled: bool = False) -> dict[str, Any]:
    result = [{"type": "choices", "value": {"choices": [choice]}} for choice in choices]
    return {"data": {"image": image}, "annotations": [{"result": result, "was_cancelled": cancelled}]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([annotated("/data/upload/1/0a1b2c3d-1.jpg", "cat")], [("data/upload/1/0a1b2c3d-1.jpg", "cat")]),
        ([annotated("/data/local-files/?d=a/1.jpg", "cat", "cat")], [("a/1.jpg", "cat")]),
        ([annotated("1.jpg", "cat", cancelled=True)], [("1.jpg", None)]),
        ([{"image": "s3://bucket/a/1.jpg", "choice": "cat", "id": 3, "annotator": 1}], [("a/1.jpg", "cat")]),
        ({"labels": {"1": "cat"}}, [("1", "cat")]),
    ],
)
def test_what_is_read(content: Any, expected: Sequence[tuple[str, str | None]], tmp_path: Path) -> None:
    assert read_labels(written(tmp_path / "x.json", content)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([annotated("1.jpg", "cat", "dog")], "has the classes cat, dog; keep one"),
        ([{"data": {"text": "x"}}], "task 1: .* has no image"),
        ({"labels": {"1": 7}, "classes": ["cat"]}, "the label 7 of '?1'? is not one of its classes"),
        ({"images": [{"id": 1}], "categories": []}, "no labels in a known format"),
        ({"images": [{"id": 1, "file_name": "1.jpg"}], "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
          "annotations": [{"image_id": 1, "category_id": 1}, {"image_id": 1, "category_id": 2}]}, "objects of a, b"),
        ([1, 2], "no labels in a known format"),
        ({"a": 1}, "no labels in a known format"),
        ([{"data": {"image": "1.jpg"}, "annotations": [3]}], "no labels in a known format"),
    ],
)  # fmt: skip
def test_what_is_refused(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        read_labels(written(tmp_path / "x.json", content))


def test_images_are_found_by_the_names_that_tools_give_them(tmp_path: Path) -> None:
    finder = Finder(tmp_path, [str(tmp_path / name) for name in ("a/1.jpg", "b/2.jpg", "c/2.jpg")])
    assert finder.find("data/upload/1/0a1b2c3d-1.jpg") == "a/1.jpg"
    assert finder.find("bucket/b/2.jpg") == "b/2.jpg"
    assert finder.find("a/1") == "a/1.jpg"
    assert finder.find("missing.jpg") == "missing.jpg"
    with pytest.raises(UserError, match=r"may be b/2.jpg or c/2.jpg"):
        finder.find("2")


def test_an_existing_file_is_kept(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "there.csv"
    out.write_text("mine")
    done = CliRunner().invoke(app, ["data", "convert", str(photos), "--out", str(out)])
    assert isinstance(done.exception, UserError)
    assert out.read_text() == "mine"


def test_the_table_of_label_studio(photos: Path, tmp_path: Path) -> None:
    table = tmp_path / "project-1.csv"
    table.write_text("annotator,choice,id,image\n1,cat,7,/data/upload/1/0a1b2c3d-1.jpg\n1,dog,8,/data/upload/1/3.jpg\n")
    listing = list_images(photos, DataConfig(source=str(photos), labels_from=table))
    assert {path: label for path, label in labels_of(listing, photos) if label} == {"a/1.jpg": "cat", "3.jpg": "dog"}
