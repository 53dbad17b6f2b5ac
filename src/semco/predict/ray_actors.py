"""Predict photos with Ray Data: actors load the model once, predict one part per call, and write a Parquet file.

A part is written under a temporary name and renamed, so an actor that dies leaves no incomplete part. Ray Data replaces
dead actors and repeats their parts without limit; from version 2.64 on no limit can be set.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from semco.data.listing import FILES, Entry, Store
from semco.data.sources.shards import Shard
from semco.distributed.cluster import RayOptions, check_shared, connect, last_line
from semco.errors import UserError
from semco.evaluation.engine import EngineName
from semco.evaluation.model_file import DESCRIPTION, WEIGHTS
from semco.evaluation.probabilities import Head
from semco.files import atomic_path, cannot_read, read_json_object, remove_leftovers
from semco.predict.engine import find_model_folder
from semco.predict.images import Output, Summary, check_some, write_predictions
from semco.predict.onnx.engine import OnnxEngine
from semco.predict.photos import find_photos
from semco.predict.predictor import Predictor, load

# Readers of a folder of Parquet files leave out names that begin with "_".
LIST = "_photos.parquet"
KEY = b"semco"
SCHEMA = pa.schema(
    [("name", pa.binary()), ("archive", pa.binary()), ("place", pa.int64()), ("size", pa.int64())]
)  # file names need not be UTF-8


@dataclass(frozen=True)
class Parts:
    """The parts of a list of photos; each row group of the list is one part."""

    folder: Path
    count: int

    def file(self, number: int) -> Path:
        return self.folder / f"part-{number:06}.parquet"

    def missing(self) -> list[int]:
        """Return the numbers of the parts that are not written yet."""
        return [number for number in range(self.count) if not self.file(number).is_file()]

    def entries(self, number: int) -> list[Entry]:
        """Return the photos of a part."""
        with pq.ParquetFile(self.folder / LIST) as listed:
            rows = listed.read_row_group(number).to_pylist()
        return [Entry(os.fsdecode(row["name"]), _store(row["archive"]), row["place"], row["size"]) for row in rows]


def _store(archive: bytes | None) -> Store:
    return FILES if archive is None else Shard(Path(os.fsdecode(archive)))


def write_list(folder: Path, photos: Iterator[Entry], per_part: int, request: Mapping[str, Any]) -> Parts:
    """Write the list of the photos and the request; only one part at a time is in memory."""
    parts = 0
    schema = SCHEMA.with_metadata({KEY: json.dumps(dict(request), sort_keys=True).encode()})
    with atomic_path(folder / LIST) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        while part := list(islice(photos, per_part)):
            writer.write_table(pa.Table.from_pylist(list(map(_row, part)), schema), row_group_size=per_part)
            parts += 1
        if not parts:
            raise UserError("no images to predict; give image files, folders of images or lists of them.")
    return Parts(folder, parts)


def _row(entry: Entry) -> dict[str, Any]:
    archive = os.fsencode(entry.file()) if isinstance(entry.store, Shard) else None
    return {"name": os.fsencode(entry.name), "archive": archive, "place": entry.place, "size": entry.size}


def open_list(folder: Path, request: Mapping[str, Any]) -> Parts | None:
    """Return the parts of a folder that was started with the same request; None if there is no list."""
    file = folder / LIST
    if not file.is_file():
        return None
    try:
        found = pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        raise cannot_read(file, error) from None
    saved = json.loads((found.metadata or {}).get(KEY, b"{}"))
    changes = sorted(name for name in {*saved, *request} if saved.get(name) != request.get(name))
    if changes:
        raise UserError(
            f"{folder} holds predictions of another request ({', '.join(changes)}); choose another folder, or force it "
            "to be overwritten."
        )
    return Parts(folder, found.num_row_groups)


def remove_parts(folder: Path) -> None:
    """Remove the list and the parts of a folder, and nothing else."""
    for file in [folder / LIST, *folder.glob("part-[0-9]*.parquet")]:
        file.unlink(missing_ok=True)


# Photos per part, rounded up to whole batches.
PHOTOS_PER_PART = 4096
COUNTS = ("predicted", "none_of_these", "unreadable")  # of a `Summary`


@dataclass(frozen=True)
class Model:
    """The model and the options that an actor needs to load it."""

    path: Path
    head: Head | None = None
    classes: Sequence[str] | None = None
    none_of_these: float | None = None

    def load(self) -> Predictor:
        """Load the model. Run folders always use torch, so that all machines compute the same."""
        engine: EngineName = "auto" if self.path.suffix.lower() == ".onnx" else "torch"
        return load(self.path, self.head, classes=self.classes, engine=engine, none_of_these=self.none_of_these)

    def weights(self, predictor: Predictor) -> str:
        """Return the checksum of the weights."""
        if isinstance(predictor.engine, OnnxEngine):
            return predictor.engine.weights
        return str(read_json_object(find_model_folder(self.path) / DESCRIPTION)["checksums"][WEIGHTS])


def predict_parts(
    output: Output,
    model: Model,
    photos: Sequence[str | Path],
    options: RayOptions,
    on_progress: Callable[[int], None] = lambda _count: None,
    standard_input: TextIO | None = None,
    per_part: int = PHOTOS_PER_PART,
) -> Summary:
    """Predict the photos that the arguments name (`find_photos`) into the parts of a folder that are missing."""
    assert output.file is not None
    output.check_numbers()
    predictor = model.load()
    request = _request(output, model.weights(predictor), predictor, photos, per_part)
    if output.force:
        remove_parts(output.file)
    parts = open_list(output.file, request)
    remove_leftovers(output.file)
    if parts is None:
        check_empty(output.file)
        size = predictor.about.batch_size
        parts = write_list(output.file, find_photos(photos, standard_input), -(-per_part // size) * size, request)
    summary = Summary()
    if missing := parts.missing():
        with connect(options) as ray:
            check_shared(ray, output.file)
            work = Work(parts, output, model, Path.cwd())
            for row in _rows(ray, work, missing, options):
                predicted, none, unreadable = (int(row[name]) for name in COUNTS)
                summary.add_counts(predicted, none, unreadable, json.loads(row["skipped"]))
                on_progress(summary.predicted + summary.unreadable)
        check_some(summary.predicted, summary.unreadable, summary.skipped)
    return summary


def check_empty(folder: Path) -> None:
    """Refuse a file, or a folder that holds other files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and holds no predictions in parts; choose another folder.")


def _request(
    output: Output, weights: str, predictor: Predictor, photos: Sequence[str | Path], per_part: int
) -> dict[str, Any]:
    """Return everything that determines the rows; a folder can be continued only with the same values."""
    about = predictor.about
    return {
        "weights": weights,
        "head": about.head,
        "classes": list(about.class_names),
        "photos": list(map(str, photos)),
        "top": output.top,
        "lowest confidence": output.least,
        "none of these": None if predictor.threshold is None else predictor.threshold.share,
        "photos per part": per_part,
    }


def _rows(ray: Any, work: Work, missing: Sequence[int], options: RayOptions) -> Iterator[dict[str, Any]]:
    """Yield the counts of each part, in the order in which the parts are finished."""
    import ray.data as ray_data

    ray_data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    most = _most_actors(ray, options, len(missing))
    actors = ray_data.ActorPoolStrategy(min_size=1, max_size=most, initial_size=most)
    parts = ray_data.from_items([{"part": number} for number in missing], override_num_blocks=len(missing))
    done = parts.map_batches(
        PartPredictor,
        batch_size=1,
        fn_constructor_args=(work,),
        compute=actors,
        **options.resources,
    )
    try:
        yield from done.iter_rows()
    except ray.exceptions.RayError as error:
        raise UserError(f"Ray could not predict all photos ({last_line(error)}); the same command continues.") from None


def _most_actors(ray: Any, options: RayOptions, parts: int) -> int:
    """Return how many actors the resources of the cluster allow, at least one and at most one per part."""
    found = ray.cluster_resources()
    by_cpus = found.get("CPU", 0) / options.cpus if options.cpus else parts
    by_gpus = found.get("GPU", 0) / options.gpus if options.gpus else parts
    return max(1, min(int(by_cpus), int(by_gpus), parts))


@dataclass(frozen=True)
class Work:
    """The arguments of all actors."""

    parts: Parts
    output: Output
    model: Model
    here: Path
    """The folder that relative paths start from."""


class PartPredictor:
    """The actor: it loads the model once and then predicts parts."""

    def __init__(self, work: Work) -> None:
        os.chdir(work.here)
        self._work, self._predictor = work, work.model.load()

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        summaries = [self._predict(int(number)) for number in batch["part"]]
        return {
            **{name: [getattr(each, name) for each in summaries] for name in COUNTS},
            "skipped": [json.dumps(each.skipped) for each in summaries],
        }

    def _predict(self, number: int) -> Summary:
        parts = self._work.parts
        return write_predictions(
            self._work.output.into(parts.file(number)), self._predictor, iter(parts.entries(number))
        )
