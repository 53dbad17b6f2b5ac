"""A network with a backbone of `transformers` as a classifier of that library's own class."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from semco.evaluation.model_file import SavedModel
from semco.evaluation.probabilities import Head
from semco.models.hf import FAMILIES, HfBackbone


def native_classifier(model: SavedModel, head: Head) -> Any | None:
    """Return the classifier with the weights of the model; None if the library has no class that answers the same.

    The one-hot head must read the features of the backbone without changes, and the images must have the size that
    the library's classifier was made for, unless it accepts any size.
    """
    import transformers

    network, described = model.network, model.description
    backbone, size = network.backbone, max(described.image_size)
    parts = [name for name, _ in network.named_children()]  # a further one changes the features
    if not isinstance(backbone, HfBackbone) or parts != ["backbone", "heads"]:
        return None
    values = dict(backbone.architecture["config"])
    kind = values.pop("model_type")
    family = FAMILIES[kind]
    made = getattr(transformers, f"{family.model.removesuffix('Model')}ForImageClassification", None)
    has_size = not family.embed or values["image_size"] == size
    if made is None or not has_size or head != "one_hot" or described.channels != 3:
        return None
    config = transformers.AutoConfig.for_model(kind, **values, **label_fields(described.class_names))
    native = made(config).eval()
    HfBackbone(native.base_model, size).load_state_dict(backbone.state_dict())  # it is made of the same layers
    _copy_linear(network.heads["one_hot"], native.classifier)
    return native


def label_fields(class_names: tuple[str, ...]) -> dict[str, dict[Any, Any]]:
    """Return the class names as the fields of a configuration."""
    names = dict(enumerate(class_names))
    return {"id2label": names, "label2id": {name: class_id for class_id, name in names.items()}}


@torch.no_grad()
def _copy_linear(head: nn.Module, classifier: nn.Module) -> None:
    """Copy a linear head. DINOv2's classifier also reads the mean of the patches, whose weights are set to 0."""
    assert isinstance(head, nn.Linear)
    (linear,) = (layer for layer in classifier.modules() if isinstance(layer, nn.Linear))
    linear.weight.zero_()[:, : head.in_features] = head.weight
    linear.bias.copy_(head.bias)
