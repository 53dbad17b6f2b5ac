"""The fields of a configuration: frozen, validated, one line of meaning below each.

A configuration round-trips through YAML and is saved with every run. A method's own fields live in the method's file,
in a subclass of `MethodConfig`, and are chosen by ``method.name``. The methods are imported when the first method
section is read, so that this module can be used alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from semco.config.safe_yaml import read_yaml
from semco.errors import UserError, brief, nearest, unknown

Unit = Annotated[float, Field(ge=0.0, le=1.0)]
DEFAULT_METHOD = "semco_plus"


# What a field holds in a request that leaves the choice to `semco.resolve`. After that no field holds it, so for a type
# checker ``Auto[float]`` is a float.
AUTO = cast(Any, "auto")
if TYPE_CHECKING:
    Value = TypeVar("Value")
    Auto = Annotated[Value, AUTO]
else:

    class Auto:
        def __class_getitem__(cls, kind):
            return kind | Literal["auto"]


class Section(BaseModel):
    """A frozen group of fields that refuses fields it does not have."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class DataConfig(Section):
    source: str = "fashion-mini"
    """A registered data set (`semco datasets` lists them), an .npz file, or a folder of images in one of the layouts
    of docs/data.md."""
    root: Path | None = None
    """The folder that holds the official files of a registered data set."""
    classes: tuple[str, ...] | None = None
    """Use only these classes, by name."""
    labels_from: Path | None = None
    """A table with the columns path and label (.csv, .tsv, .jsonl); other images of the folder are unlabelled, those
    in test/CLASS and val/CLASS for testing and validation only."""
    unlabeled: Path | None = None
    """More unlabelled images: a folder, a .tar file, or a list (.txt) with one path per line."""
    labelled_from: Path | None = None
    """A list (.txt) of the images whose labels are used: paths, or positions in the training set from 0 on."""
    labels_per_class: int | None = Field(default=None, ge=1)
    """Number of labelled images per class. With neither this nor num_labels, every available label is used."""
    num_labels: int | None = Field(default=None, ge=1)
    """Number of labelled images in total, spread over the classes as label_spread says."""
    label_spread: Literal["even", "proportional"] = "even"
    """How num_labels is spread: the same number for each class, or in proportion to the images of the classes."""
    imbalance: float = Field(default=1.0, ge=1.0)
    """Long-tailed labels: the first class has this many times as many as the last, falling geometrically from
    labels_per_class; 1 is balanced."""
    pool: Literal["all", "unlabelled"] = "all"
    """The unlabelled pool: all training images including the labelled ones, whose labels it does not use (FixMatch),
    or only those without a label (paper)."""
    validation: Auto[Literal["train", "labelled", "none"]] = AUTO
    """Where validation images come from: training images with a label that is not used ("train"), the labelled images
    ("labelled"), or nowhere ("none"). "auto" is "train" if there are such images, else "labelled" from 200 labels
    and 20 per class on, else "none", because few labels are all needed for training."""
    validation_size: int = Field(default=500, ge=1)
    """Largest number of validation images; at most a tenth of the training images ("train") or a fifth of the
    labelled images ("labelled") are used."""
    image_size: int | None = Field(default=None, ge=8, le=4096)
    """Height and width in pixels; null is the size of the pretrained weights, else that of the data set (for folders:
    the median, at most 96)."""
    memory: int = Field(default=512, ge=0)
    """Decoded images of a folder are held in memory up to this size in MiB. More of them are stored in a memory-mapped
    file that later runs use again. The result is the same."""
    strict: bool = False
    """Stop at an unreadable image instead of skipping and counting it."""

    @model_validator(mode="after")
    def _check_one_label_count(self) -> DataConfig:
        if self.num_labels is not None and self.labels_per_class is not None:
            raise ValueError("give num_labels or labels_per_class, not both")
        if self.labelled_from is not None and (self.num_labels or self.labels_per_class):
            raise ValueError("give labelled_from or a number of labels, not both")
        if self.imbalance > 1 and self.labels_per_class is None:
            raise ValueError("imbalance needs labels_per_class, the number of labels of the first class")
        return self


class LabelsConfig(Section):
    source: Auto[Literal["bundled", "plain", "store", "attributes", "matrix", "encoder"]] = AUTO
    """Source of the label vectors: the bundled store, which knows how things look; the bundled store "plain", which was
    built as the paper says; a store you built, class attributes, a matrix, a text encoder. "auto": the class
    attributes that are beside the images, as in CUB-200-2011, else the bundled store."""
    path: Path | None = None
    """The folder of the store, the attribute file or the matrix file."""
    encoder: str | None = None
    """A local folder or hub name of a `transformers` text encoder, or "use": the sentence encoder of
    semco[sentences]."""
    prompts: tuple[str, ...] = ("a photo of a {}.",)
    """The prompts in which the text encoder reads a class name; {} is the name."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """Class name -> vocabulary term, for names that the look-up does not find or gets wrong."""
    strict_names: bool = False
    """Stop at a class name that the look-up does not find, instead of giving it a vector of its own."""
    unknown_names: Literal["encode", "own"] = "encode"
    """The vector of a name that the look-up does not find: from the sentence encoder if it is installed
    (semco[sentences]) and sure, else a vector of its own; or always a vector of its own ("own")."""
    eps: Auto[Annotated[float, Field(ge=0, le=2)]] = AUTO
    """DBSCAN's eps: the largest cosine distance between neighbours in a group. "auto" is the default of the source, 0
    turns grouping off."""
    together: tuple[tuple[str, ...], ...] = ()
    """Classes that belong to one group, however far apart their vectors are: lists of class names."""
    apart: tuple[tuple[str, ...], ...] = ()
    """Classes that must not be in one group: of each list, all but the first leave a group that they share."""
    min_groups: int = Field(default=1, ge=1)
    """Turn grouping off if it would leave fewer groups than this (the authors' released code: 6)."""
    dim: int = Field(default=128, ge=2)
    """Size of the label vectors, for sources that can choose it."""
    targets: Literal["embedding", "one_hot"] = "embedding"
    """What the semantic head learns to predict: label vectors, or one-hot vectors (ablation of Table 4, with the loss
    that method.semantic_loss says). The groups do not change."""


class ModelConfig(Section):
    backbone: str = "wrn-28-2"
    """The network: wrn-DEPTH-WIDTH, cnn-13, resnet18, resnet50, efficientnet-lite0, -lite1, -lite2, or
    hf:NAME_OR_FOLDER of a `transformers` model; `semco backbones` lists them."""
    pretrained: Literal["published", "none"] = "published"
    """Start from published weights if the backbone has them, or always from random ones ("none")."""
    weights: Path | None = None
    """A safetensors file with weights of your own for the backbone, for example model/model.safetensors of a run."""
    stem: Auto[Literal["small", "large"]] = AUTO
    """First layers of a ResNet: 7x7 with stride 2 and pooling ("large") or 3x3 ("small"); "auto" is "small" for images
    up to 64 pixels."""
    norm: Literal["batch", "none"] = "batch"
    """Normalisation layers; "none" is for tests of exactness and for very small batches."""
    norm_warmup: bool = True
    """Let the running statistics of batch normalisation follow faster at first; otherwise short runs would end before
    they have moved away from their initial values."""
    semantic_head: Literal["linear", "mlp", "mlp_except_resnet50"] = "linear"
    """Layers of the semantic head: one (paper); two with a ReLU between them; or two except on ResNet-50 (the authors'
    released code)."""
    mlp_hidden: int = Field(default=2048, ge=1, le=2**20)
    """Width of the hidden layer of a semantic head of two layers."""
    tune: Auto[Literal["all", "top", "heads"]] = AUTO
    """The layers that are trained: all, the last stages of the backbone and the heads ("top"), or only the heads. The
    others keep their loaded weights, and their outputs are computed once for all steps. "auto" is "all" from random
    weights and "heads" from loaded ones."""
    freeze_norm: Auto[bool] = AUTO
    """Keep the statistics of batch normalisation as they were loaded; "auto": for backbones with loaded weights."""
    heads_init: Auto[Literal["probe", "random"]] = AUTO
    """Initial weights of the heads: a linear probe, fitted to the features of the labelled images, or random; "auto":
    a probe for backbones with loaded weights."""
    cached_views: int = Field(default=6, ge=1, le=64)
    """Weak and strong views per image whose outputs of the frozen layers are stored (tune: top or heads)."""


class AugmentConfig(Section):
    pad: Unit = 0.125
    """Reflection padding before the random crop, as a fraction of the image side (4 of 32 pixels)."""
    pad_pixels: int | None = Field(default=None, ge=0)
    """Reflection padding in pixels; null: ``pad`` decides."""
    flip: bool = True
    """Mirror half of the views."""
    operations: int = Field(default=2, ge=0, le=8)
    """Number of RandAugment operations in a strong view."""
    cutout: Unit = 0.5
    """Side of the Cutout square in a strong view, as a fraction of the image side."""


class OptimConfig(Section):
    lr: Auto[PositiveFloat] = AUTO
    """Learning rate; "auto" is the paper's 0.03 in runs of its length and up to 0.1 in short runs; from loaded weights
    0.03, or 0.003 if all layers are trained."""
    backbone_lr: Auto[PositiveFloat] = AUTO
    """Learning rate of the backbone; "auto": that of the heads, or for loaded weights a tenth of it."""
    momentum: Unit = 0.9
    """Momentum of SGD."""
    nesterov: bool = True
    """Use Nesterov momentum."""
    weight_decay: float = Field(default=5e-4, ge=0)
    """Weight decay; not applied to normalisation layers and biases."""
    start_decay: Auto[Annotated[float, Field(ge=0)]] = AUTO
    """Weight decay of the heads towards their first values (L2-SP, Li et al. 2018); "auto": 0.03 if these are a linear
    probe, else 0."""
    warmup: Unit = 10 / 300
    """Linear warm-up of the learning rate, as a fraction of the run (paper: 10 of 300 epochs)."""
    warmup_epochs: float | None = Field(default=None, ge=0)
    """Warm-up in epochs, whatever the length of the run; null: ``warmup`` decides."""
    schedule: Literal["cosine", "cosine_7_16", "constant"] = "cosine"
    """After the warm-up: half a cosine down to 0 (paper), FixMatch's 7/16 of a cosine, or constant."""


class TrainingConfig(Section):
    steps: int | None = Field(default=None, ge=1)
    """Length of the run in steps. Without a length, a run from random weights takes 300 epochs as in the paper."""
    epochs: float | None = Field(default=None, gt=0)
    """Length of the run in epochs."""
    minutes: float | None = Field(default=None, gt=0)
    """Length of the run in minutes on this machine: as many steps as fit, after a few were timed."""
    images_per_epoch: int = Field(default=64 * 1024, ge=1)
    """Number of labelled images per epoch."""
    batch_size: int = Field(default=64, ge=1)
    """Labelled images per step, over all processes."""
    mu: int = Field(default=3, ge=1)
    """Unlabelled images per labelled image."""
    ema_decay: Unit = 0.999
    """Decay of the exponential moving average (EMA) of the weights. Evaluation uses the EMA weights."""
    ema_warmup: bool = True
    """Use the decay min(ema_decay, (1 + step) / (10 + step)); otherwise short runs would end before the average has
    moved away from the initial weights."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Seed of the split, the initial weights and all random choices of the run."""
    log_every: Auto[PositiveInt] = AUTO
    """Steps between two lines of metrics.jsonl; "auto": about 50 lines per run."""
    validate_every: Auto[PositiveInt] = AUTO
    """Steps between two validations; "auto": about 20 per run."""
    checkpoint_every: Auto[PositiveInt] = AUTO
    """Steps between two checkpoints; "auto": about 10 per run."""
    target_views: Literal["no_grad", "joint"] = "no_grad"
    """How views that only make targets run: in a pass of their own without gradient (faster), or in one pass with all
    other views (paper)."""
    skip: Auto[bool] = AUTO
    """Leave out of the pass with gradient the strong views of images whose pseudo-labels have no weight (FixMatch,
    its variants, SemCo, SemCo+). "auto" turns it on for CPUs and networks without normalisation across images, where it
    changes only the time."""
    device: str = AUTO
    """"auto" is a GPU if there is one; else cpu, cuda, cuda:1, ..."""
    precision: Auto[Literal["float32", "bfloat16"]] = AUTO
    """Precision in which the backbone computes; weights, heads, losses and averages are float32 in any case. "auto" is
    bfloat16 on GPUs that have it, else float32."""
    frozen_engine: Auto[Literal["openvino", "onnx", "torch"]] = AUTO
    """What computes the layers that are not trained (model.tune: top or heads): OpenVINO, ONNX Runtime or torch, with
    the same outputs to 1e-4. "auto" is the first one that is installed and knows the network, on CPUs and for enough
    images to make it pay."""
    recompute: Auto[bool] = AUTO
    """Store fewer activations and recompute them in the backward pass: less memory for little time. "auto" turns it on
    for CPUs, where it was measured."""
    statistics: bool = True
    """Count pseudo-labels per class and per image while training (classes.parquet, images.parquet)."""
    sync_batch_norm: bool = False
    """Compute batch-norm statistics over the images of all processes instead of per process."""

    @model_validator(mode="after")
    def _check_one_length(self) -> TrainingConfig:
        if sum(each is not None for each in (self.steps, self.epochs, self.minutes)) > 1:
            raise ValueError("give one of steps, epochs and minutes")
        if self.skip is True and (self.target_views == "joint" or self.sync_batch_norm):
            raise ValueError("skip=true needs target_views=no_grad and sync_batch_norm=false: it runs fewer images")
        return self

    @property
    def steps_per_epoch(self) -> int:
        return max(1, self.images_per_epoch // self.batch_size)

    @property
    def total_steps(self) -> int:
        if self.steps is not None:
            return self.steps
        return max(1, round((self.epochs or 300) * self.steps_per_epoch))


class EvaluationConfig(Section):
    head: Auto[Literal["one_hot", "semantic", "average"]] = AUTO
    """The head that predicts: the one-hot head (SemCo's paper), the semantic head, or the mean of both softmaxes.
    "auto" is the head of the method's paper: the semantic head for DeViSE, the one-hot head for all others; for SemCo+
    from loaded weights it is the mean."""
    folds: Auto[Annotated[int, Field(ge=0, le=100)]] = AUTO
    """Parts into which the labels are divided if nothing else is held out: each part is predicted by a model that was
    fitted without it, and so is the linear probe. 0: no cross-validation."""
    batch_size: int = Field(default=256, ge=1)
    """Images per batch in evaluation."""


class MethodConfig(Section):
    """Base of every method's own fields. A subclass gives ``name`` a default."""

    name: str
    """The method; `semco methods` lists them."""

    @property
    def centres_label_vectors(self) -> bool:
        """Whether the mean label vector is subtracted from the targets of the semantic head."""
        return False

    @property
    def has_close_up(self) -> bool:
        """Whether a method that is fitted reads the close-up of each photo beside the plain one."""
        return False


class OpenMethod(MethodConfig):
    """The method of a request that names none; the section gets the fields of a method when one is chosen."""

    name: Literal["auto"] = "auto"


def method_config_class(name: str) -> type[MethodConfig]:
    """Return the configuration class of a method, from the one registry of methods."""
    if name == AUTO:
        return OpenMethod
    # By name, because the methods are a later room of the package, and only when asked, because they import torch.
    registry = import_module("semco.methods").Method.registry
    if name not in registry:
        raise unknown("method", name, registry)
    config: type[MethodConfig] = registry[name].Config
    return config


def _method_config(value: object) -> object:
    """Read a method section from a mapping or a bare name."""
    if isinstance(value, str):
        value = {"name": value}
    if isinstance(value, Mapping):
        return method_config_class(method_name(value)).model_validate({"name": method_name(value), **value})
    return value


def method_name(section: Mapping[str, Any]) -> str:
    """Return the method of a section with fields of its own, which need not name the default method."""
    return str(section.get("name", DEFAULT_METHOD))


class Config(Section):
    data: DataConfig = DataConfig()
    labels: LabelsConfig = LabelsConfig()
    model: ModelConfig = ModelConfig()
    augment: AugmentConfig = AugmentConfig()
    method: Annotated[SerializeAsAny[MethodConfig], BeforeValidator(_method_config)] = OpenMethod()
    optim: OptimConfig = OptimConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Config:
        """Validate plain values; every error is one sentence that names field, value and what is allowed.

        Examples:
            >>> config = semco.Config.parse({"data": {"source": "photos"}, "training": {"steps": 500}})
            >>> config.training.steps, config.method.name
            (500, 'auto')
        """
        if not isinstance(values, Mapping):
            raise UserError(f"a configuration is a mapping of sections, not {type(values).__name__}.")
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise UserError(_first_error(error, values)) from None

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)

    @classmethod
    def from_yaml(cls, text: str) -> Config:
        return cls.parse(read_yaml(text))


def _first_error(error: ValidationError, values: Mapping[str, Any]) -> str:
    """Describe the first problem of a validation in one sentence."""
    first = error.errors()[0]
    path = _field_path([str(part) for part in first["loc"]])
    dotted = ".".join(path) or "the configuration"
    if first["type"] == "extra_forbidden":
        known = _fields_at(path[:-1], values)
        hint = nearest(path[-1], known) or "."
        where = ".".join(path[:-1]) or "the configuration"
        return f"unknown config key {brief(dotted)}{hint} Known keys of {where}: {', '.join(known)}."
    context = first.get("ctx", {}).get("error")
    if isinstance(context, UserError):
        return str(context)
    if first["type"] == "union_tag_invalid":
        rules = ", ".join(map(repr, THRESHOLD_RULES))
        return f"config {dotted}.rule = {first['ctx']['tag']!r}: input should be one of {rules}."
    message = first["msg"].removeprefix("Value error, ")
    value = "" if isinstance(first["input"], Mapping) else f" = {brief(first['input'])}"  # a whole section is too long
    return f"config {dotted}{value}: {message[0].lower()}{message[1:]}."


def _field_path(location: list[str]) -> list[str]:
    """Return the fields of an error's location without pydantic's names for the branches of a union."""
    return [
        part
        for before, part in zip(["", *location], location, strict=False)
        if not (
            part in ("float", "int")
            or part.startswith(("function-", "literal[", "constrained-"))
            or (before == "thresholds" and part in THRESHOLD_RULES)
        )
    ]


# The rules of ``method.thresholds``; each has its own fields.
THRESHOLD_RULES = ("fixed", "freematch")


def _fields_at(path: list[str], values: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields below a path; below ``method``, those of the method that ``values`` name."""
    model: type[BaseModel] = Config
    for part in path:
        section = values.get(part) if isinstance(values, Mapping) else None
        values = section if isinstance(section, Mapping) else {}
        if part == "method":
            model = method_config_class(method_name(values))
        elif (chosen := _branch(model.model_fields[part], values)) is not None:
            model = chosen
        else:
            return []
    return sorted(model.model_fields)


def _branch(field: FieldInfo, values: Mapping[str, Any]) -> type[BaseModel] | None:
    """Return the section class of a field; of a union, the rule that ``values`` name or the default."""
    annotation = field.annotation
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    branches = [each for each in getattr(annotation, "__args__", ()) if isinstance(each, type)]
    rules = [each for each in branches if issubclass(each, BaseModel) and "rule" in each.model_fields]
    named = values.get("rule", getattr(field.default, "rule", None))
    return next((each for each in rules if each.model_fields["rule"].default == named), None)
