"""The problem of a run in its folder: written when the run starts, read and compared when it is resumed."""

from __future__ import annotations

import json
from typing import Any

from semco.config import Config
from semco.data.datasets import Dataset
from semco.data.sources import load, source_exists
from semco.data.split import Split
from semco.errors import UserError, made_earlier
from semco.experiment.loading import vectors_of
from semco.experiment.problem import Problem, fingerprints, make_problem, prepare
from semco.run.checkpoint import checkpoints
from semco.run.data_record import changes_of_dataset
from semco.run.folder import RunFolder
from semco.run.identity import check_same_run
from semco.run.seal import VECTORS, broken_seals, read_with_digest, write_with_digest
from semco.training.observer import Observer


def write_problem(run: RunFolder, problem: Problem, config: Config, scale: float | None) -> None:
    """Write ``split.json`` and ``labels.json``: enough to resume, and to see which term a name was matched to.

    The checksums and the configuration in ``split.json`` protect a run that has no checkpoint yet.
    """
    seal = {name: digest for name, digest in problem.seal.items() if name != "split"}
    split = {
        **json.loads(problem.split.to_json()),
        "images": problem.seal["training images"],
        "seal": seal,
        "config": config.model_dump(mode="json"),
    }
    write_with_digest(run.split_file, split)
    write_labels(run, problem, scale)


def write_labels(run: RunFolder, problem: Problem, scale: float | None) -> None:
    """Write ``labels.json``: term, route and group of each class."""
    embeddings = problem.embeddings
    labels = {
        "names": list(problem.dataset.class_names),
        "terms": list(embeddings.terms) if embeddings else [],
        "routes": list(embeddings.routes) if embeddings else [],
        "source": embeddings.source if embeddings else "none",
        "eps": problem.groups.eps,
        "groups": problem.groups.group_ids.tolist(),
        "vectors": fingerprints(problem.label_vectors),
        "scale": scale,
    }
    write_with_digest(run.labels_file, labels)


def read_problem(config: Config, run: RunFolder, observer: Observer) -> Problem:
    """Return the problem of a run that is resumed, with the split of its folder if that was written."""
    if not source_exists(config.data.source):
        raise UserError(
            f"{run.path} was started with {config.data.source!r}, which does not exist: put it back, or write its new "
            f"place as data.source into {run.config_file}."
        )
    dataset = load(config.data, observer.on_loading)
    split = _read_split(run, config, dataset) if run.split_file.exists() else None
    embeddings = vectors_of(config, dataset, observer)(config.labels)
    if split is None:
        problem = prepare(config, dataset, embeddings, observer)
    else:
        problem = make_problem(config, dataset, split, embeddings, observer)
    _check_unchanged(problem, run, config)
    return problem


def _read_split_file(run: RunFolder) -> dict[str, Any]:
    """Return the content of ``split.json``, as `write_problem` wrote it."""
    values = read_with_digest(run.split_file)
    if not {"pool", "images", "seal", "config"} <= values.keys():
        raise made_earlier(run.path)
    return values


def _read_split(run: RunFolder, config: Config, dataset: Dataset) -> Split:
    try:
        return Split.from_json(json.dumps(_read_split_file(run)), dataset.train_labels)
    except UserError as error:
        raise _explained(error, run, config, dataset) from None


def _check_unchanged(problem: Problem, run: RunFolder, config: Config) -> None:
    """Refuse to resume a run with another configuration, other images or label vectors than it was started with."""
    sealed: dict[str, Any] = {}
    if run.split_file.exists():
        saved = _read_split_file(run)
        check_same_run(saved["config"], config, run.config_file)
        sealed = {"training images": saved["images"], **saved["seal"]}
    elif run.labels_file.exists() and not checkpoints(run.checkpoints):  # which would have their own checksums
        raise UserError(f"{run.split_file} is missing: restore it, or start a new run.")
    if run.labels_file.exists():
        read_with_digest(run.labels_file)
    broken = broken_seals(sealed, problem.seal)
    data = [name for name in broken if name not in ("groups", VECTORS)]
    if data:
        error = UserError(
            f"the {data[0]} are not those that {run.path} was started with: restore the data, or start a new run."
        )
        raise _explained(error, run, config, problem.dataset)
    if broken:
        raise UserError(
            f"the label vectors are not those that {run.path} was started with: restore labels.path or the store, "
            "or start a new run."
        )


def _explained(error: UserError, run: RunFolder, config: Config, dataset: Dataset) -> UserError:
    """Return the error about changed data with the files that have changed, if these are known."""
    changes = changes_of_dataset(run.path, config.data, dataset)
    if not changes:
        return error
    return UserError(
        f"the data have changed since {run.path} was started: {changes.describe()}; restore them, or start a new run."
    )
