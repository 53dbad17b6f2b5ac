"""A model that follows the labels: features of all photos are computed once, and a head is fitted after every label.

`LiveModel` fits the same head as a run with the same labels, with the same functions and the same stored features.
`follow` runs in a process of the Studio's worker: it reads the newest labels from a file and writes its answers.

Shapes: N photos, D inputs of the head, K classes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from semco.config import Config
from semco.data.datasets import Dataset
from semco.data.listing import Listing, Part
from semco.data.pixels import read_listing
from semco.distributed.processes import Processes
from semco.errors import UserError
from semco.experiment.context import Context
from semco.experiment.cross_validation import Measured
from semco.experiment.fitted import Rows, fit_head, some_of
from semco.experiment.loading import facts_of, native_size
from semco.experiment.problem import prepare
from semco.experiment.write import SUGGESTED
from semco.files import read_json_object, write_json
from semco.methods import FittedMethod
from semco.models import LinearHead
from semco.resolve import Machine, method_of, resolve
from semco.suggestions.suggest import cover
from semco.training.execution import choose_device
from semco.training.observer import NullObserver, Observer

PAUSE = 0.1  # seconds between two looks at the file of labels
QUIET = 1.0  # seconds without a new label before the accuracy is measured, which takes several fits
STAND_IN = ("one", "other")  # placeholder classes until there are labels; features do not depend on them


class OutdatedError(Exception):
    """Newer labels arrived while the head was being fitted."""


@dataclass(frozen=True)
class Labelled:
    """The labels of the photos."""

    names: tuple[str, ...]  # of the K classes
    class_ids: NDArray[np.int64]  # (N,) of the photos, -1: no label
    test_ids: NDArray[np.int64]  # of the test photos, -1: none of the classes
    label_fields: Mapping[str, Any]  # of the section ``labels`` of the configuration


@dataclass(frozen=True)
class Fitted:
    """The answers for the photos without a label, and their accuracy if it was measured."""

    photos: NDArray[np.int64]  # (U,) positions
    guesses: NDArray[np.int64]  # (U,)
    confidence: NDArray[np.float64]  # (U,)
    places: NDArray[np.int64]  # (U,) among the photos most worth a label, 1 the first; 0 the rest
    measured: Measured | None = None


class LiveModel:
    """Fits the head of a method that takes no steps to features of photos, for any labels."""

    def __init__(self, request: Config, dataset: Dataset, folder: Path, observer: Observer) -> None:
        self._request, self._dataset, self._folder = request, dataset, folder
        self._machine = Machine.of_this_process()
        count = len(dataset.train_labels)
        if not issubclass(method_of(request), FittedMethod):
            raise UserError(f"the method {method_of(request).name} is trained in rounds.")
        if count < len(STAND_IN):
            raise UserError("a model needs at least two photos that can be read; add some.")
        first_labels = np.full(count, -1)
        first_labels[:2] = 0, 1
        none = np.full(0 if dataset.test_images is None else len(dataset.test_images), -1)
        context = self._resolved(Labelled(STAND_IN, first_labels, none, {}), observer)
        method = context.method
        assert isinstance(method, FittedMethod)
        close_up = context.config.method.has_close_up
        self._inputs = context.inputs
        self._photos = Rows(self._inputs.views_of_training(has_close_up=close_up), torch.arange(count))
        self._test = self._inputs.views_of_test(has_close_up=close_up)
        transform = method.transform(self._photos)
        self._features = method.features(self._photos, transform)
        self._rows = self._photos.through(transform if transform is not None else lambda views: views[:, 0])  # (N, D)

    def _resolved(self, labelled: Labelled, observer: Observer) -> Context:
        labels = self._request.labels.model_dump() | dict(labelled.label_fields)
        request = Config.parse({**self._request.model_dump(), "labels": labels})
        test = None if self._dataset.test_images is None else torch.from_numpy(labelled.test_ids)
        dataset = replace(
            self._dataset,
            class_names=labelled.names,
            train_labels=torch.from_numpy(labelled.class_ids),
            test_labels=test,
        )
        facts = facts_of(request, dataset, observer)
        config = resolve(request, facts, self._machine).config
        processes = Processes.from_environment()
        device = choose_device(config.training.device, processes)
        problem = prepare(config, dataset, facts.label_vectors(config.labels), observer)
        return Context.of(config, self._folder, problem, device, processes, observer)

    def context(self, labelled: Labelled) -> Context:
        """Return the context of a run with these labels, which uses the stored features."""
        return replace(self._resolved(labelled, NullObserver()), inputs=self._inputs)

    def fit(self, context: Context) -> Fitted:
        """Return the answers of the method alone, which takes one fit."""
        method, split = context.method, context.problem.split
        assert isinstance(method, FittedMethod)
        pool = self._rows[torch.from_numpy(some_of(split.unlabelled, method.most_pool, context.config.training.seed))]
        x = self._rows[torch.from_numpy(split.labelled)]
        head = method.fit(x, context.problem.labelled_class_ids, pool, self._features)
        return self._fitted(context, head.logits(self._rows))

    def measure(self, context: Context, is_outdated: Callable[[], bool]) -> Fitted:
        """Return the answers of the better of method and linear probe, and both accuracies, as a run measures them.

        Raises `OutdatedError` as soon as ``is_outdated`` returns True.
        """
        method = context.method
        assert isinstance(method, FittedMethod)
        fit = method.fit

        def fit_if_needed(x: Tensor, class_ids: Tensor, pool: Tensor, features: Tensor | None = None) -> LinearHead:
            if is_outdated():
                raise OutdatedError
            return fit(x, class_ids, pool, features)

        method.fit = fit_if_needed  # type: ignore[method-assign]
        verdict = fit_head(context)
        network = verdict.network
        found = self._fitted(context, self._photos.through(lambda views: network(views).logits))
        known = context.problem.dataset.test_labels
        if self._test is None or known is None or not (known >= 0).any():
            return replace(found, measured=verdict.held_out)
        test = Rows(self._test, torch.arange(len(known)))
        right = test.through(lambda views: network(views).logits.argmax(dim=1)) == known
        return replace(found, measured=Measured("test", right[known >= 0].numpy(), verdict.probe_test))

    def _fitted(self, context: Context, logits: Tensor) -> Fitted:
        """Return the answers, given the logits (N, K) of all photos."""
        given = context.problem.dataset.train_labels.numpy() >= 0
        confidence, guesses = (each.numpy() for each in logits.softmax(dim=1).max(dim=1))
        others = np.flatnonzero(~given)
        unit = torch.nn.functional.normalize(self._rows, dim=1).numpy()
        chosen = [row for row, _ in cover(unit[others], unit[given], SUGGESTED)] if len(others) else []
        places = np.zeros(len(others), dtype=np.int64)
        places[chosen] = np.arange(1, len(chosen) + 1)
        return Fitted(others, guesses[others], confidence[others].astype(np.float64), places)


def read_photos(request: Config, photos: list[str], test: list[str], observer: Observer) -> Dataset:
    """Return the photos as a data set without labels, at the image size of the network."""
    train_part, test_part = Part(), Part()
    train_part.add_files(photos)
    test_part.add_files(test)
    size = request.data.image_size or native_size(request)
    data = request.data.model_copy(update={"image_size": size})
    return read_listing(request.data.source, Listing((), train_part, test_part), data, observer.on_loading)


class Status(Observer, Protocol):
    def write(self, **values: Any) -> None: ...


def follow(job: Mapping[str, Any], status: Status) -> None:
    """Fit to the newest labels and write the answers, again and again until the process is stopped."""
    request, files = Config.from_yaml(job["config"]), read_json_object(Path(job["photos"]))
    dataset = read_photos(request, files["photos"], files["test"], status)
    model = LiveModel(request, dataset, Path(job["out"]), status)
    readable = _Readable(files, dataset)
    labels, answers = Path(job["labels"]), Path(job["answers"])
    status.write(phase=None, is_ready=True)
    version, seen, is_measured = 0, 0, True
    while True:
        stamp = _stamp(labels)
        if stamp == seen and (is_measured or time.time_ns() - stamp < QUIET * 1e9):
            time.sleep(PAUSE)
            continue
        is_measured, seen = stamp == seen, stamp
        values = read_json_object(labels)
        try:
            context = model.context(readable.labelled(values))
            is_newer = partial(_is_newer, labels, seen)
            found = model.measure(context, is_newer) if is_measured else model.fit(context)
        except OutdatedError:
            continue
        except UserError as error:
            status.write(error=str(error), seq=values["seq"])
            is_measured = True
            continue
        version += 1
        write_json(answers, {"version": version, **readable.answers(found, values)})
        status.write(version=version, seq=values["seq"], error=None, **_accuracy(found))


def _is_newer(file: Path, seen: int) -> bool:
    return _stamp(file) != seen


def _stamp(file: Path) -> int:
    """Return the modification time of a file in nanoseconds; 0 if it does not exist."""
    try:
        return os.stat(file).st_mtime_ns  # noqa: PTH116 (ten times per second)
    except OSError:
        return 0


def _accuracy(found: Fitted) -> dict[str, Any]:
    """Return the accuracy as the page shows it; empty if it was not measured, so that the page keeps the last one."""
    measured = found.measured
    if measured is None or measured.accuracy is None:
        return {}
    probe = measured.probe_result(is_kept=False)
    return {
        "accuracy": measured.accuracy.model_dump(),
        "probe": None if probe is None else probe.model_dump(),
    }


class _Readable:
    """The photos that could be read, by their numbers in the Studio."""

    def __init__(self, files: Mapping[str, Any], dataset: Dataset) -> None:
        self._photos = _positions(files["photos"], dataset.train_paths)
        self._test = _positions(files["test"], dataset.test_paths)

    def labelled(self, values: Mapping[str, Any]) -> Labelled:
        """Return the labels in a request, restricted to the photos that could be read."""
        class_ids = np.full(1 + max(self._photos.max(), max(values["photos"], default=0)), -1)
        class_ids[values["photos"]] = values["class_ids"]
        test_ids = np.asarray(values["test_ids"], dtype=np.int64)[self._test]
        return Labelled(tuple(values["names"]), class_ids[self._photos], test_ids, values["labels"])

    def answers(self, found: Fitted, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return answers with the Studio's numbers of photos and classes."""
        return {
            "photos": self._photos[found.photos].tolist(),
            "guesses": np.asarray(values["classes"])[found.guesses].tolist(),
            "confidence": found.confidence.round(4).tolist(),
            "places": found.places.tolist(),
        }


def _positions(files: list[str], kept: tuple[str, ...] | None) -> NDArray[np.int64]:
    """Return the positions, among all files, of those that could be read; both lists have the same order."""
    number = {name: position for position, name in enumerate(files)}
    return np.asarray([number[name] for name in kept or ()], dtype=np.int64)
