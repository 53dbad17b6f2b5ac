"""Read the data of a request and the facts about them that the rules of `semco.resolve` use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from semco.config import Config, LabelsConfig
from semco.data.datasets import Dataset
from semco.data.sources import class_attributes, load
from semco.data.split import count_labels, read_labelled
from semco.errors import UserError
from semco.labels import LabelEmbeddings, label_source
from semco.models import SMALL_SIDE, inspect_backbone
from semco.resolve import DataFacts, method_of
from semco.training.observer import Observer

# Fields of the labels that say what happens to the vectors, not what they are.
USES = {"eps", "together", "apart", "min_groups", "targets"}


@dataclass(frozen=True)
class Loaded:
    """The data set of a request, and facts about it."""

    dataset: Dataset
    facts: DataFacts


def load_request(request: Config, observer: Observer, dataset: Dataset | None = None) -> Loaded:
    """Return the data that a request names, or ``dataset`` in their place, at the size that the network expects."""
    data = request.data
    size = data.image_size or native_size(request)
    if dataset is None:
        dataset = load(data.model_copy(update={"image_size": size}), observer.on_loading)
    elif size is not None:
        dataset = dataset.resized(size)
    return Loaded(dataset, facts_of(request, dataset, observer))


def native_size(request: Config) -> int | None:
    """Return the image size for which the weights of a backbone were made; None if any size will do."""
    return inspect_backbone(request.model, in_channels=3, image_size=SMALL_SIDE).native_size


def facts_of(request: Config, dataset: Dataset, observer: Observer) -> DataFacts:
    """Return the facts about a data set that the rules use."""
    used, spare = count_labels(
        dataset.train_labels,
        request.data,
        request.training.seed,
        dataset.class_names,
        dataset.held_out,
        read_labelled(request.data, dataset),
    )
    return DataFacts(
        num_classes=dataset.num_classes,
        num_labels=used,
        spare_labels=spare,
        images=len(dataset.train_labels),
        image_size=dataset.image_size,
        channels=dataset.channels,
        has_validation=dataset.held_out is not None and bool(dataset.held_out.any()),
        attributes=class_attributes(request.data),
        label_vectors=vectors_of(request, dataset, observer),
    )


def vectors_of(
    config: Config, dataset: Dataset, observer: Observer
) -> Callable[[LabelsConfig], LabelEmbeddings | None]:
    """Return a function that looks the class names up in a source of label vectors, once per source.

    A method without a semantic head can do without vectors, and gets None for names that have none.
    """
    found: dict[str, LabelEmbeddings | None] = {}
    method = method_of(config)

    def look_up(labels: LabelsConfig) -> LabelEmbeddings | None:
        key = labels.model_dump_json(exclude=USES)
        if key not in found:
            try:
                found[key] = label_source(labels).vectors(dataset.class_names)
            except UserError as error:
                if "semantic" in method.heads:
                    raise
                observer.on_message(f"without label vectors and groups: {error}")
                found[key] = None
        return found[key]

    return look_up
