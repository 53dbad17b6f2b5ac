"""One frozen, validated configuration for a run; it round-trips through YAML and is saved with every run.

Each field has its meaning below it, which `semco settings` shows. A method's own fields live in the method's file, in
a subclass of `MethodConfig`, and are chosen by ``method.name``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    SerializeAsAny,
    ValidationError,
    model_validator,
)

from semco.errors import UserError, nearest, unknown

Unit = Annotated[float, Field(ge=0.0, le=1.0)]
# Fields that say where things are, which may change between two parts of a run.
PLACES = ("data.source", "data.root", "labels.path", "training.device")


def _switch(value: object) -> object:
    """YAML reads a bare ``on`` or ``off`` as true or false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


class Section(BaseModel):
    """A frozen group of fields that refuses what it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class DataConfig(Section):
    source: str = "fashion-mini"
    """A registered data set, an .npz file or a folder of class folders."""
    root: Path | None = None
    """Where the official files of a registered data set lie."""
    classes: tuple[str, ...] | None = None
    """Keep only these classes, by name."""
    labels_per_class: int | None = Field(default=None, ge=1)
    """So many labelled images of each class. Neither this nor labels: every label there is."""
    labels: int | None = Field(default=None, ge=1)
    """So many labelled images in all, spread evenly over the classes."""
    validation: Literal["auto", "train", "labelled", "none"] = "auto"
    """Where validation images come from: labelled training images that are not used as labels ("train"), the labels
    themselves ("labelled"), nowhere ("none"). "auto" is "train" where such images exist, else "labelled"."""
    validation_size: int = Field(default=500, ge=1)
    """At most so many validation images; never more than a tenth of the training images ("train") or a fifth of the
    labels ("labelled")."""
    pool: Literal["all", "unlabelled"] = "all"
    """The unlabelled pool: every training image that is not held out, the labelled ones included ("all", as FixMatch
    does), or only images without a label ("unlabelled", the paper)."""
    image_size: int | None = Field(default=None, ge=8, le=4096)
    """Height and width in pixels; null keeps the size of the data set (folders: the median, at most 96)."""
    strict: bool = False
    """Stop at an unreadable image instead of skipping and counting it."""

    @model_validator(mode="after")
    def _one_kind_of_count(self) -> DataConfig:
        if self.labels is not None and self.labels_per_class is not None:
            raise ValueError("give labels or labels_per_class, not both")
        return self


class LabelsConfig(Section):
    source: Literal["bundled", "store", "attributes", "matrix", "encoder"] = "bundled"
    """Where class vectors come from: the bundled store, a built store, class attributes, a matrix, a text encoder."""
    path: Path | None = None
    """The store's folder, the attribute file or the matrix file."""
    encoder: str | None = None
    """A local folder or hub name of a `transformers` text encoder."""
    prompts: tuple[str, ...] = ("a photo of a {}.",)
    """The sentences that the text encoder reads class names in."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """Class name -> vocabulary term, for names the look-up cannot find by itself."""
    eps: Annotated[float, Field(ge=0, le=2)] | Literal["auto"] = "auto"
    """Largest cosine distance between neighbours in a group; "auto" is the source's own default, 0 turns grouping
    off."""
    dim: int = Field(default=128, ge=2)
    """Size of the vectors where the source can choose it."""
    targets: Literal["centred", "embedding", "one_hot"] = "centred"
    """What the semantic head learns to predict: the vectors as seen from their mean, as they are (paper), or
    (ablation) the identity. Groups stay as they are."""


class ModelConfig(Section):
    backbone: str = "wrn-28-2"
    """The network: wrn-DEPTH-WIDTH, resnet18 or resnet50."""
    stem: Literal["auto", "small", "large"] = "auto"
    """First layers of a ResNet: 7x7 stride 2 + pooling ("large") or 3x3 ("small"); "auto" decides by image size
    (64)."""
    norm: Literal["batch", "none"] = "batch"
    """Normalisation layers; "none" is for tests of exactness and for very small batches."""
    semantic_head: Literal["linear", "mlp"] = "linear"
    """The head that predicts label vectors: one layer, or two with a ReLU between them."""
    mlp_hidden: int = Field(default=2048, ge=1)
    """Width of the hidden layer of semantic_head=mlp."""


class AugmentConfig(Section):
    pad: Unit = 0.125
    """Reflected padding before the random crop, as a part of the image's side (4 of 32 pixels)."""
    pad_pixels: int | None = Field(default=None, ge=0)
    """The same padding in pixels; null lets pad decide. An image is padded by at most its side less one pixel."""
    flip: bool = True
    """Mirror one view in two."""
    operations: int = Field(default=2, ge=0, le=8)
    """RandAugment operations of a strong view."""
    cutout: Unit = 0.5
    """Cutout's side in a strong view, as a part of the image's."""


class OptimConfig(Section):
    lr: PositiveFloat | Literal["auto"] = "auto"
    """Learning rate; "auto": the paper's 0.03 in runs of its length, up to 0.1 in short ones."""
    momentum: Unit = 0.9
    """Momentum of SGD."""
    nesterov: bool = True
    """Nesterov's form of the momentum."""
    weight_decay: float = Field(default=5e-4, ge=0)
    """Weight decay; not applied to normalisation layers and biases."""
    warmup: Unit = 10 / 300
    """Linear warm-up of the learning rate, as a part of the run (the paper: 10 of 300 epochs)."""
    schedule: Literal["cosine", "cosine_7_16", "constant"] = "cosine"
    """After the warm-up: down to 0 along half a cosine, FixMatch's 7/16 of a cosine, or constant."""


class TrainingConfig(Section):
    steps: int | None = Field(default=None, ge=1)
    """Length of the run in steps; with neither steps nor epochs, 300 epochs as in the paper."""
    epochs: float | None = Field(default=None, gt=0)
    """Length of the run in epochs."""
    images_per_epoch: int = Field(default=64 * 1024, ge=1)
    """Labelled images that count as an epoch."""
    batch_size: int = Field(default=64, ge=1)
    """Labelled images of a step, of all processes together."""
    mu: int = Field(default=3, ge=1)
    """Unlabelled images per labelled one."""
    ema_decay: Unit = 0.999
    """What the averaged weights, which are those that answer, keep of themselves at each step."""
    ema_warmup: bool = True
    """Let the average follow faster at first, min(decay, (1 + step) / (10 + step)): short runs are not their start."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Of the split, the initial weights and every random choice of the run."""
    log_every: int | None = Field(default=None, ge=1)
    """Steps between two lines of metrics.jsonl; null: about 50 lines in a run."""
    validate_every: int | None = Field(default=None, ge=1)
    """Steps between two validations; null: about 20 in a run."""
    checkpoint_every: int | None = Field(default=None, ge=1)
    """Steps between two checkpoints; null: about 10 in a run."""
    target_views: Literal["no_grad", "joint"] = "no_grad"
    """Views that only make targets: a pass of their own without gradient (faster), or in one pass with the others."""
    device: str = "auto"
    """"auto" is a GPU where there is one; else cpu, cuda, cuda:1, ..."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Numbers of the network: "auto" is float32 on CPUs, bfloat16 (or float16) on GPUs."""
    compile: Annotated[Literal["auto", "on", "off"], BeforeValidator(_switch)] = "auto"
    """torch.compile: "auto" turns it on when the run is long enough to win the compile time back."""
    recompute: Annotated[Literal["auto", "on", "off"], BeforeValidator(_switch)] = "auto"
    """Keep fewer maps for the backward pass and make them again in it: less memory for little time, as measured on
    CPUs, where "auto" does so."""
    sync_batch_norm: bool = False
    """Several processes normalise by the statistics of all their images together instead of each by its own."""

    @model_validator(mode="after")
    def _one_length(self) -> TrainingConfig:
        if self.steps is not None and self.epochs is not None:
            raise ValueError("give steps or epochs, not both")
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
    head: Literal["one_hot", "semantic", "average"] = "one_hot"
    """Which head answers: the one-hot head, the semantic head, or the mean of both softmaxes."""
    batch_size: int = Field(default=256, ge=1)
    """Images at a time when the model answers."""


class MethodConfig(Section):
    """Base of every method's own fields; a subclass gives ``name`` a default and is known by it from then on."""

    known: ClassVar[dict[str, type[MethodConfig]]] = {}
    name: str
    """The method; `semco methods` lists them."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        name = cls.model_fields["name"].default
        if isinstance(name, str):
            MethodConfig.known[name] = cls


def _method_config(value: object) -> object:
    """A method's section from a mapping (or a bare name) by the registry of method configurations."""
    if isinstance(value, str):
        value = {"name": value}
    if isinstance(value, Mapping):
        name = _method_of(value)
        if name not in MethodConfig.known:
            raise unknown("method", name, MethodConfig.known)
        return MethodConfig.known[name].model_validate(dict(value))
    return value


class Config(Section):
    data: DataConfig = DataConfig()
    labels: LabelsConfig = LabelsConfig()
    model: ModelConfig = ModelConfig()
    augment: AugmentConfig = AugmentConfig()
    method: Annotated[SerializeAsAny[MethodConfig], BeforeValidator(_method_config)] = Field(
        default_factory=lambda: MethodConfig.known["semco"](name="semco")
    )
    optim: OptimConfig = OptimConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Config:
        """Validate plain values; every error is one sentence that names field, value and what is allowed."""
        if not isinstance(values, Mapping):
            raise UserError(f"a configuration is a mapping of sections, not {type(values).__name__}.")
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise UserError(_sentence(error, values)) from None

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)

    @classmethod
    def from_yaml(cls, text: str) -> Config:
        return cls.parse(read_yaml(text))


def read_yaml(text: str, where: str = "the configuration") -> dict[str, Any]:
    """A YAML mapping as plain values."""
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{where} is not valid YAML: {' '.join(str(error).split())}.") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{where} must be a mapping of sections, not {type(values).__name__}.")
    return {section: content for section, content in values.items() if content is not None}


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the values of ``over``, section by section; another method starts a new method section."""
    merged = dict(base)
    for key, new in over.items():
        old, value = ({"name": v} if key == "method" and isinstance(v, str) else v for v in (merged.get(key), new))
        if isinstance(old, Mapping) and isinstance(value, Mapping) and not (key == "method" and _another(old, value)):
            merged[key] = merge(old, value)
        else:
            merged[key] = value
    return merged


def _another(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return "name" in new and new["name"] != _method_of(old)


def _method_of(section: Mapping[str, Any]) -> str:
    """The method that a section is of, which need not be named when it is SemCo."""
    return str(section.get("name", "semco"))


def flat_fields(values: Mapping[str, Any], below: str = "") -> dict[str, Any]:
    """Nested values as ``dotted.key: value``."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flat_fields(value, f"{below}{key}.")
        else:
            flat[f"{below}{key}"] = value
    return flat


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Dotted names of the values in which two configurations differ, each with the old and the new value.

    Where things are does not count: data may be moved.
    """
    one, other = ({key: value for key, value in flat_fields(each).items() if key not in PLACES} for each in (old, new))
    return {key: (one.get(key), other.get(key)) for key in {**one, **other} if one.get(key) != other.get(key)}


def assignment(text: str) -> dict[str, Any]:
    """``dotted.key=value`` (the value is YAML) as nested values."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip(".").strip():
        raise UserError(f"--set takes dotted.key=value, for example training.steps=500, not {text!r}.")
    if not value.strip():
        raise UserError(f"--set {text} has no value; write {key}=null where nothing is meant.")
    try:
        nested: Any = yaml.safe_load(value)
    except yaml.YAMLError:
        raise UserError(
            f"--set {text}: the value is not valid YAML; put it in quotes, or close its brackets."
        ) from None
    for part in reversed(key.strip().split(".")):
        nested = {part: nested}
    return dict(nested)


def _sentence(error: ValidationError, values: Mapping[str, Any]) -> str:
    """The first problem of a validation in one sentence."""
    first = error.errors()[0]
    path = [str(part) for part in first["loc"] if not _is_branch(str(part))]
    dotted = ".".join(path) or "the configuration"
    if first["type"] == "extra_forbidden":
        known = _fields_at(path[:-1], values)
        where = ".".join(path[:-1]) or "the top level"
        hint = nearest(path[-1], known) or "."
        return f"unknown config key {dotted!r}{hint} Known keys of {where}: {', '.join(known)}."
    context = first.get("ctx", {}).get("error")
    if isinstance(context, UserError):
        return str(context)
    message = first["msg"].removeprefix("Value error, ")
    value = "" if isinstance(first["input"], Mapping) else f" = {first['input']!r}"  # a whole section says too much
    return f"config {dotted}{value}: {message[0].lower()}{message[1:]}."


def _is_branch(part: str) -> bool:
    """Whether a part of an error's place is pydantic's name for one side of a union, not a field."""
    return part in ("float", "int") or part.startswith(("function-", "literal[", "constrained-"))


def _fields_at(path: list[str], values: Mapping[str, Any]) -> list[str]:
    """The names of the fields below a dotted path; below ``method``, those of the method that ``values`` name."""
    if path[:1] == ["method"]:
        name = _method_of(values["method"])
        return sorted(MethodConfig.known[name].model_fields)
    model: type[BaseModel] = Config
    for part in path:
        annotation = model.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return sorted(model.model_fields)
