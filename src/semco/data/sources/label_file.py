"""Files of labels: CSV, tables of Hugging Face, and the JSON files of Label Studio, FiftyOne and COCO."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from semco.data.folder import image_files, subfolders
from semco.data.listing import FILES, Entry, Listing
from semco.data.sources.part_folders import PartFolder, PartFolders, notes_on_parts
from semco.data.sources.rows import MOST_BYTES, ROLES, Role, Rows, lines_of, path_inside
from semco.errors import UserError, brief
from semco.files import absolute, exists, no_such, read_json, read_text

Label = tuple[str, str | None]  # path of an image, its class or None
# The prefix that Label Studio adds to the name of an uploaded file.
UPLOADED = re.compile(r"^[0-9a-f]{8}-")
# Keys of a flat row (JSON_MIN) that are not the class.
NOT_A_CLASS = {"image", "id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"}


def read_labels(file: Path) -> list[Label]:
    """Return the path and class of each image in a file of another tool."""
    content = read_json(file)
    try:
        if isinstance(content, list):
            return list(_read_label_studio(file, content))
        if isinstance(content, dict) and isinstance(content.get("labels"), dict):
            return list(_read_fiftyone(file, content))
        if isinstance(content, dict) and isinstance(content.get("images"), list):
            return list(_read_coco(file, content))
    except (AttributeError, KeyError, TypeError):  # a value of the wrong type for the format
        pass
    raise UserError(
        f"{file} holds no labels in a known format: Label Studio (JSON), FiftyOne image classification "
        "(labels.json), COCO; or give a table with the columns path and label."
    )


def _read_label_studio(file: Path, tasks: Sequence[Mapping[str, Any]]) -> Iterator[Label]:
    for number, task in enumerate(tasks, 1):
        data = task.get("data", task)
        path = data.get("image") if isinstance(data, dict) else None
        if not isinstance(path, str):
            raise UserError(f"{file}, task {number}: {brief(task)} has no image; name the data of the project 'image'.")
        classes = _chosen(task) if "data" in task else _flat_classes(task)
        if len(classes) > 1:
            raise UserError(f"{file}, task {number}: {brief(path)} has the classes {', '.join(classes)}; keep one.")
        yield local_path(path), next(iter(classes), None)


def _chosen(task: Mapping[str, Any]) -> list[str]:
    """Return the distinct choices of all annotations of a task that were not cancelled."""
    annotations = [each for each in task.get("annotations", ()) if not each.get("was_cancelled")]
    results = [result for each in annotations for result in each.get("result", ())]
    return list(dict.fromkeys(name for each in results for name in each.get("value", {}).get("choices", ())))


def _flat_classes(row: Mapping[str, Any]) -> list[str]:
    return [value for key, value in row.items() if key not in NOT_A_CLASS and isinstance(value, str) and value]


def is_address(path: str) -> bool:
    """Return whether a path is a URL that Label Studio made for a file."""
    return path.startswith("/data/") or "://" in path


def local_path(address: str) -> str:
    """Return the file path in a URL that Label Studio made."""
    if not is_address(address):
        return address
    parts = urlsplit(address)
    local = parse_qs(parts.query).get("d")
    return local[0] if local else unquote(parts.path).lstrip("/")


def _read_fiftyone(file: Path, content: Mapping[str, Any]) -> Iterator[Label]:
    classes = content.get("classes")
    for name, label in content["labels"].items():
        if isinstance(label, int) and isinstance(classes, list) and 0 <= label < len(classes):
            label = classes[label]
        if not (label is None or isinstance(label, str)):
            raise UserError(f"{file}: the label {brief(label)} of {brief(name)} is not one of its classes; correct it.")
        yield name, label


def _read_coco(file: Path, content: Mapping[str, Any]) -> Iterator[Label]:
    names = {each["id"]: str(each["name"]) for each in content["categories"]}
    found: dict[Any, set[str]] = {}
    for each in content.get("annotations", ()):
        found.setdefault(each["image_id"], set()).add(names[each["category_id"]])
    for each in content["images"]:
        path, classes = str(each["file_name"]), sorted(found.get(each["id"], ()))
        if len(classes) > 1:
            raise UserError(f"{file}: {brief(path)} has objects of {', '.join(classes)}; an image needs one class.")
        yield path, next(iter(classes), None)


def labels_of(listing: Listing, root: Path) -> list[Label]:
    """Return the training images of a folder with their classes, by their paths below the folder."""
    paths = (Path(os.path.relpath(name, root)).as_posix() for name in listing.train.names)
    names = listing.class_names
    return [(path, names[i] if i >= 0 else None) for path, i in zip(paths, listing.train.labels, strict=True)]


class Finder:
    """Finds images that other tools name without their folder or extension, or with an added prefix."""

    def __init__(self, root: Path, images: Iterable[str]) -> None:
        self._root, self._images = root, images

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for image in self._images:
            path = PurePosixPath(Path(os.path.relpath(image, self._root)).as_posix())
            # FiftyOne leaves out the extension, other tools the folder.
            for name in {str(path), str(path.with_suffix("")), path.name, path.stem}:
                found.setdefault(name, []).append(str(path))
        return found

    def find(self, path: str) -> str:
        """Return the image in the folder that ``path`` stands for; ``path`` itself if there is none."""
        name = PurePosixPath(path).name
        parts = PurePosixPath(path).parts
        endings = ["/".join(parts[start:]) for start in range(len(parts))]
        for candidate in (path, *endings, name, UPLOADED.sub("", name)):
            found = self._by_name.get(candidate, ())
            if len(found) == 1:
                return found[0]
            if len(found) > 1:
                raise UserError(f"{brief(path)} may be {found[0]} or {found[1]}; give images different names.")
        return path


def label_studio(labels: Sequence[Label]) -> Any:
    """Return tasks for Label Studio's import, with labels as annotations and photos as local files."""
    return [
        {"data": {"image": f"/data/local-files/?d={path}"}, "annotations": [_annotation(label)] if label else []}
        for path, label in labels
    ]


def _annotation(label: str) -> dict[str, Any]:
    choice = {"from_name": "choice", "to_name": "image", "type": "choices", "value": {"choices": [label]}}
    return {"result": [choice]}


def fiftyone(labels: Sequence[Label]) -> Any:
    """Return the labels.json of FiftyOne's image classification: class numbers by image name without extension."""
    classes = sorted({label for _, label in labels if label})
    numbers = {name: number for number, name in enumerate(classes)}
    found = {str(PurePosixPath(path).with_suffix("")): numbers[label] if label else None for path, label in labels}
    if len(found) < len(labels):
        raise UserError("two images differ only in their ending, which FiftyOne leaves out; rename one.")
    return {"classes": classes, "labels": found}


def coco(labels: Sequence[Label]) -> Any:
    """Return images, categories and one annotation per labelled image."""
    classes = sorted({label for _, label in labels if label})
    numbers = {name: number for number, name in enumerate(classes, 1)}
    marked = [(position, label) for position, (_, label) in enumerate(labels, 1) if label]
    return {
        "images": [{"id": position, "file_name": path} for position, (path, _) in enumerate(labels, 1)],
        "categories": [{"id": number, "name": name} for name, number in numbers.items()],
        "annotations": [
            {"id": number, "image_id": position, "category_id": numbers[label]}
            for number, (position, label) in enumerate(marked, 1)
        ],
    }


def csv_text(labels: Iterable[Sequence[str | None]], columns: Sequence[str] = ("path", "label")) -> str:
    """Return a table with the columns path and label, and others if their names are given."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(labels)
    return text.getvalue()


def as_json(convert: Callable[[Sequence[Label]], Any]) -> Callable[[Sequence[Label]], str]:
    return lambda labels: json.dumps(convert(labels), indent=1) + "\n"


# The text of a file of labels, by format.
FORMATS: dict[str, Callable[[Sequence[Label]], str]] = {
    "csv": csv_text,
    "label-studio": as_json(label_studio),
    "fiftyone": as_json(fiftyone),
    "coco": as_json(coco),
}


PATH_COLUMNS = ("path", "file_name", "filename", "file", "image", "image_path", "img")
LABEL_COLUMNS = ("label", "class", "category", "class_name", "label_name", "labels", "choice")
ROLE_COLUMNS = ("split", "subset", "part")
METADATA = ("metadata.csv", "metadata.jsonl")

Row = tuple[str, str | None, str]  # path, label or None, split or ""


def add_labels_file(rows: Rows, root: Path, file: Path) -> None:
    """Add the images that a table lists with their labels, and every other image below ``root`` without one.

    Images in test/CLASS and val/CLASS that it does not list are for testing and for validation only. All are in the
    order of the files, so that results computed from the images stay valid when labels are added.
    """
    if not exists(file):
        raise no_such("file of labels", file)
    root = absolute(root)  # so that an image has one name, however a row calls it
    images, rows.ignored = image_files(root)
    listed = _listed(file, root, images)
    folders = PartFolders(root, (label for label, _ in listed.values() if label is not None))
    in_folders: Counter[PartFolder] = Counter()
    for name in images:
        label, role = listed.pop(name, (None, ""))
        folder = None if label or role else folders.find(name)
        if folder is not None:
            in_folders[folder] += 1
            rows.add(Entry(name, FILES), folder.class_name, folder.role)
        else:
            rows.add(Entry(name, FILES), label, _part(role))
    for name, (label, role) in listed.items():  # files that are not there, or not by an ending of an image
        rows.add(Entry(name, FILES), label, _part(role))
    rows.notes += notes_on_parts(in_folders)


def _listed(file: Path, root: Path, images: Sequence[str]) -> dict[str, tuple[str | None, str]]:
    """Return label and split of each image that a table lists, by the name of its file."""
    listed: dict[str, tuple[str | None, str]] = {}
    for number, (path, label, role) in enumerate(_read_any(file, root, images), 1):
        name = _find(root, absolute(file.parent), path)
        if name in listed:
            raise UserError(f"{file} names {brief(path)} twice (the second time in row {number}): keep one row.")
        listed[name] = label, role
    if not listed:
        raise UserError(f"{file} has no row with a path and a label: add some.")
    return listed


def _part(role: str) -> Role:
    return ROLES.get(role.lower(), "train")


def _read_any(file: Path, root: Path, images: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a table or of a JSON file; other tools name images in their own ways."""
    finder = Finder(root, images)
    if file.suffix.lower() == ".json":
        for path, label in read_labels(file):
            yield finder.find(path), label, ""
        return
    for path, label, role in read_table(file):
        yield finder.find(local_path(path)) if is_address(path) else path, label, role


def _find(root: Path, beside: Path, path: str) -> str:
    """Return the file of a row: relative to ``root``, to the folder of the table, or absolute, but inside ``root``."""
    if os.path.isabs(path) or ".." in Path(path).parts:  # noqa: PTH117 (a name, not a path)
        whole = os.path.normpath(os.path.join(beside, path))  # noqa: PTH118
        if not Path(whole).is_relative_to(root):
            raise UserError(f"{brief(path)} is not in {root}: list images of that folder only.")
        return whole
    inside = path_inside(root, path)
    other = path_inside(beside, path)
    is_other = not os.path.exists(inside) and Path(other).is_relative_to(root) and os.path.exists(other)  # noqa: PTH110
    return os.path.normpath(other if is_other else inside)


def metadata_folders(root: Path) -> list[Path]:
    """Return the folders with a table of Hugging Face: ``root``, or those of its folders train/, val/ and test/."""
    if _metadata(root) is not None:
        return [root]
    return [f for f in subfolders(root) if f.name.lower() in ROLES and _metadata(f) is not None]


def add_metadata(rows: Rows, folder: Path, role: str = "") -> None:
    """Add the images of a folder with the labels of its table; those it does not list are unlabelled."""
    file = _metadata(folder)
    assert file is not None
    listed: set[str] = set()
    for path, label, own_role in read_table(file):
        name = os.path.normpath(path_inside(folder, path))
        listed.add(name)
        part = ROLES.get((own_role or role or path.partition("/")[0] if "/" in path else own_role or role).lower())
        rows.add(Entry(name, FILES), label, part or "train")
    images, others = image_files(folder)
    rows.ignored += others
    if ROLES.get(role.lower(), "train") == "train":
        rows.train.add_files(image for image in images if image not in listed)


def _metadata(folder: Path) -> Path | None:
    return next((folder / name for name in METADATA if exists(folder / name)), None)


def read_table(file: Path) -> Iterator[Row]:
    """Yield path, label and split of each row of a .csv, .tsv or .jsonl file; an empty label is no label."""
    if file.suffix.lower() == ".jsonl":
        yield from _read_json_lines(file)
        return
    text = read_text(file, MOST_BYTES, "utf-8-sig")
    delimiter = "\t" if file.suffix.lower() == ".tsv" else _delimiter(text)
    try:
        table = [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise UserError(f"{file} cannot be read as a table ({error}); correct the file.") from None
    columns = _columns(file, table[0]) if table else None
    for number, row in enumerate(table[1:] if columns else table, 2 if columns else 1):
        path, label, role = columns or (0, 1, None)
        if len(row) <= max(path, label or 0, role or 0):
            raise UserError(f"{file}, row {number}: {brief(row)} has too few columns; correct the row.")
        yield row[path].strip(), _label(row[label] if label is not None else ""), row[role].strip() if role else ""


def _delimiter(text: str) -> str:
    first = text.partition("\n")[0]
    return max(",;\t", key=first.count)


def _label(value: str) -> str | None:
    return value.strip() or None


def _columns(file: Path, header: Sequence[str]) -> tuple[int, int | None, int | None] | None:
    """Return the columns of path, label and split; None if the first row is not a header."""
    names = [cell.strip().lower() for cell in header]
    path, label, role = (_first(names, known) for known in (PATH_COLUMNS, LABEL_COLUMNS, ROLE_COLUMNS))
    if path is None and label is None:
        if len(header) < 2:
            raise UserError(f"{file} has one column: give each row a path and a label.")
        return None
    if path is None:
        raise UserError(f"{file} has no column of paths ({', '.join(PATH_COLUMNS[:3])}): name one so.")
    if label is None and file.name not in METADATA:
        raise UserError(f"{file} has no column of labels ({', '.join(LABEL_COLUMNS[:3])}): name one so.")
    return path, label, role


def _first(names: Sequence[str], known: Sequence[str]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def _read_json_lines(file: Path) -> Iterator[Row]:
    for number, line in lines_of(file):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        path = _value(values, PATH_COLUMNS)
        if path is None:
            raise UserError(f"{file}, line {number}: {brief(line)} is not a JSON object with a file_name; correct it.")
        yield path, _value(values, LABEL_COLUMNS), _value(values, ROLE_COLUMNS) or ""


def _value(values: Any, names: Sequence[str]) -> str | None:
    found = next((values[n] for n in names if n in values), None) if isinstance(values, dict) else None
    return str(found) if isinstance(found, str | int) and str(found).strip() else None
