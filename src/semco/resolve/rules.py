"""One rule for every field that a request may leave open: its value, and why.

`resolve` is a pure function of the request, the data and the machine. The rules run in the order of `RULES`, and each
sees the values of those before it. To add a field that can be "auto", declare it in `config/schema.py` and add its rule
here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from semco.config import AUTO, Config, MethodConfig, configure
from semco.config.schema import DEFAULT_METHOD, method_config_class
from semco.errors import UserError
from semco.methods import FittedMethod, Method
from semco.models import SMALL_SIDE, has_weights, inspect_backbone
from semco.resolve.engine import choose_engine
from semco.resolve.facts import DataFacts, Machine

# The method of a request that names none, on loaded weights.
FITTED_METHOD = "semantic_probe"
# With fewer labels in total or per class than these, none is held out.
FEW_LABELS, FEW_LABELS_PER_CLASS = 200, 20
# No run from loaded weights takes more steps (docs/lab/pretrained.md); the paper's runs take 300 epochs.
MOST_STEPS, PAPER_EPOCHS = 600, 300
# Steps and learning rate: the best rate for short runs (docs/lab/results.md), and the paper's 300 epochs.
SHORT, LONG = (500, 0.1), (307_200, 0.03)
# For heads that start from a linear probe, by what is trained; a backbone that starts from loaded weights gets a part
# of the heads' rate. At the rate of the heads alone, training all layers destroys them (docs/lab/pretrained.md).
PRETRAINED_HEADS = {"heads": 0.03, "top": 0.03, "all": 0.003}
PRETRAINED_BACKBONE_PART = 0.1
# Weight decay towards the start for heads that start from a linear probe (docs/lab/pretrained.md).
PROBE_DECAY = 0.03
# Parts of the labels for cross-validation: of a head that is fitted in seconds, and of training, by what is trained;
# there each part costs as much as the run.
FITTED_FOLDS, TRAINED_FOLDS = 5, {"heads": 3, "top": 2, "all": 0}

Answer = tuple[Any, str]  # a value and the reason for it
Rule = Callable[[Config, DataFacts, Machine], Answer]


@dataclass(frozen=True)
class Resolution:
    """A configuration without open fields, and the reasons for what the request left open, by dotted name."""

    config: Config
    reasons: Mapping[str, str]
    notes: tuple[str, ...] = ()  # messages for the user before the run starts


def resolve(request: Config, data: DataFacts, machine: Machine) -> Resolution:
    """Return the configuration that a request leads to with these data on this machine.

    Without steps or epochs, the length is the most that a run takes; how many steps fit into ``training.minutes`` is
    known when a few were timed, and the request can then be resolved again with their number.
    """
    check_request(request)
    config, reasons = request, {}
    for name, rule in RULES.items():
        if is_open(name, request):
            value, reasons[name] = rule(config, data, machine)
            config = with_value(config, name, value)
    check_warmup(config)
    length = {"epochs": None, "minutes": None}  # the steps replace them
    config = config.model_copy(update={"training": config.training.model_copy(update=length)})
    return Resolution(Config.parse(config.model_dump()), reasons, _notes(config, machine))


def method_of(request: Config) -> type[Method[MethodConfig]]:
    """Return the method that a request leads to, whatever the data are."""
    name = request.method.name
    return Method.registry[_method(request)[0] if name == AUTO else name]


def _method(config: Config, *_facts: DataFacts | Machine) -> Answer:
    """On loaded weights a head is fitted in seconds, unless steps are asked for or layers of the backbone trained."""
    asks_for_steps = config.training.steps is not None or config.training.epochs is not None
    if has_weights(config.model) and config.model.tune in (AUTO, "heads") and not asks_for_steps:
        return FITTED_METHOD, "the weights are loaded"
    return DEFAULT_METHOD, "the network is trained"


def check_request(request: Config) -> None:
    """Refuse what the method cannot do."""
    method = method_of(request)
    if request.evaluation.head not in (AUTO, "one_hot") and "semantic" not in method.heads:
        raise UserError(
            f"evaluation.head={request.evaluation.head} needs a semantic head, which {method.name} does not "
            "have; use evaluation.head=one_hot."
        )
    if request.evaluation.folds == 1:
        raise UserError("evaluation.folds=1 would hold out all labels at once; give 0 for none, or 2 or more.")


def _notes(config: Config, machine: Machine) -> tuple[str, ...]:
    """Return notes on features that mean nothing and on bfloat16; a GPU that cannot compute in it is an error."""
    notes = [note] if (note := note_on_weights(config)) else []
    if config.training.precision != "float32":
        if _kind_of_device(config) != "cuda":
            notes.append("bfloat16 can take many times as long as float32 on a CPU")
        elif machine.has_bfloat16:
            notes.append("the network computes in bfloat16")
        else:
            raise UserError("this GPU has no bfloat16: set training.precision=float32.")
    return tuple(notes)


def note_on_weights(request: Config) -> str:
    """Return a note if a head would be fitted to features that mean nothing."""
    method = method_of(request)
    if not issubclass(method, FittedMethod) or has_weights(request.model):
        return ""
    return (
        f"{method.name} is fitted to the features of {request.model.backbone}, whose weights are random; "
        f"model.backbone={configure('photos').model.backbone} has weights"
    )


def is_open(name: str, config: Config) -> bool:
    """Return whether the rule decides a field: it is "auto", or null where null means the same."""
    value = value_of(config, name)
    return bool(value == AUTO) or (value is None and name in OPEN_IF_NULL)


def value_of(config: Config, name: str) -> Any:
    section, _, field = name.partition(".")
    return getattr(getattr(config, section), field)


def with_value(config: Config, name: str, value: Any) -> Config:
    """Return a configuration with another value in a field of dotted name."""
    section, _, field = name.partition(".")
    if name == "method.name":  # which decides the other fields of the section
        return config.model_copy(update={"method": method_config_class(value)(name=value)})
    changed = getattr(config, section).model_copy(update={field: value})
    return config.model_copy(update={section: changed})


def check_warmup(config: Config) -> None:
    """Refuse a run that would end while the learning rate is still rising."""
    epochs, training = config.optim.warmup_epochs, config.training
    if epochs is not None and epochs * training.steps_per_epoch >= training.total_steps:
        raise UserError(
            f"optim.warmup_epochs={epochs:g} are {epochs * training.steps_per_epoch:,.0f} steps, but the run has only "
            f"{training.total_steps:,}; train longer, or set optim.warmup_epochs=null "
            f"for {config.optim.warmup:.0%} of the run."
        )


def _image_size(_config: Config, data: DataFacts, _machine: Machine) -> Answer:
    height, width = data.image_size
    return (height, "the size of the images as they were read") if height == width else (None, "images are not square")


def _validation(config: Config, data: DataFacts, _machine: Machine) -> Answer:
    if data.has_validation:
        return "none", "the data have validation images of their own"
    if data.spare_labels and min(config.data.validation_size, data.images // 10):
        return "train", f"{data.spare_labels:,} training images have a label that is not used"
    # With few labels, training without the held-out ones would cost more accuracy than the estimate is worth.
    if issubclass(Method.registry[config.method.name], FittedMethod):
        return "none", f"{config.method.name} is cross-validated, which takes seconds"
    if data.num_labels >= FEW_LABELS and data.num_labels / data.num_classes >= FEW_LABELS_PER_CLASS:
        return "labelled", f"{data.num_labels:,} labels are enough to hold some out"
    return "none", f"{data.num_labels:,} labels are all needed for training"


def _label_source(_config: Config, data: DataFacts, _machine: Machine) -> Answer:
    if data.attributes is not None:
        return "attributes", f"{data.attributes.name} is beside the images"
    return "bundled", "the class names are looked up in the bundled store"


def _label_path(config: Config, data: DataFacts, _machine: Machine) -> Answer:
    is_found = config.labels.source == "attributes" and data.attributes is not None
    return (data.attributes, "the class attributes beside the images") if is_found else (None, "not needed")


def _eps(config: Config, data: DataFacts, _machine: Machine) -> Answer:
    vectors = data.label_vectors(config.labels)
    if vectors is None:
        return 0.0, "the class names have no label vectors"
    return vectors.default_eps, "the default of these label vectors"


def _stem(_config: Config, data: DataFacts, _machine: Machine) -> Answer:
    side = max(data.image_size)
    return "small" if side <= SMALL_SIDE else "large", f"images of {side} pixels"


def _from_weights(yes: Any, no: Any) -> Rule:
    """Return the rule of a field that depends on whether the weights of the backbone are loaded."""

    def rule(config: Config, _data: DataFacts, _machine: Machine) -> Answer:
        return (yes, "the weights are loaded") if has_weights(config.model) else (no, "the weights are random")

    return rule


def _steps(config: Config, _data: DataFacts, _machine: Machine) -> Answer:
    training = config.training
    if training.epochs is not None:
        return _steps_of(training.epochs, config), f"{training.epochs:g} epochs"
    if has_weights(config.model):
        most, why = MOST_STEPS, "as many as help from loaded weights"
    else:
        most, why = _steps_of(PAPER_EPOCHS, config), f"{PAPER_EPOCHS} epochs, as in the paper"
    if training.minutes is not None:
        why = f"at most: {why}; fewer if they do not fit into {training.minutes:g} minutes"
    return most, why


def _steps_of(epochs: float, config: Config) -> int:
    return max(1, round(epochs * config.training.steps_per_epoch))


def _lr(config: Config, _data: DataFacts, _machine: Machine) -> Answer:
    if has_weights(config.model):
        return PRETRAINED_HEADS[config.model.tune], f"loaded weights, tune={config.model.tune}"
    (short, high), (long, low) = SHORT, LONG
    steps = min(max(config.training.total_steps, short), long)
    rate = high * (low / high) ** (math.log(steps / short) / math.log(long / short))
    return float(rate), f"from {high} for short runs to the paper's {low}"


def _backbone_lr(config: Config, _data: DataFacts, _machine: Machine) -> Answer:
    if has_weights(config.model):
        return PRETRAINED_BACKBONE_PART * config.optim.lr, "a tenth of that of the heads, for loaded weights"
    return config.optim.lr, "that of the heads"


def _start_decay(config: Config, _data: DataFacts, _machine: Machine) -> Answer:
    if config.model.heads_init == "probe":
        return PROBE_DECAY, "the heads start from a linear probe"
    return 0.0, "the heads start from random weights"


def _device(_config: Config, _data: DataFacts, machine: Machine) -> Answer:
    return ("cuda", "this machine has a GPU") if machine.has_gpu else ("cpu", "this machine has no GPU")


def _kind_of_device(config: Config) -> str:
    return config.training.device.partition(":")[0]


def _precision(config: Config, _data: DataFacts, machine: Machine) -> Answer:
    if _kind_of_device(config) == "cuda" and machine.has_bfloat16:
        return "bfloat16", "this GPU has instructions for bfloat16"
    return "float32", "the same results on every CPU, and on GPUs without bfloat16"


def _frozen_engine(config: Config, data: DataFacts, machine: Machine) -> Answer:
    if config.model.tune == "all":
        return "torch", "no layer is frozen"
    pixels = data.images * math.prod(data.image_size)
    return choose_engine(
        config.model.backbone, _kind_of_device(config), config.training.precision, pixels, machine.engines
    )


def _recompute(config: Config, _data: DataFacts, _machine: Machine) -> Answer:
    return _kind_of_device(config) == "cpu", "measured to pay on CPUs"


def _skip(config: Config, data: DataFacts, _machine: Machine) -> Answer:
    """Skip where that changes nothing but the time. On a GPU, counting the images would make it wait."""
    training, model = config.training, config.model
    if training.target_views == "joint" or training.sync_batch_norm:
        return False, "all views run in one pass"
    if _kind_of_device(config) != "cpu" or model.tune == "heads":
        return False, "nothing to save"
    backbone = inspect_backbone(model, data.channels, max(data.image_size))
    norms = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in backbone.modules())
    if norms and not model.freeze_norm:
        return False, "batch normalisation looks across images"
    return True, "no layer looks across images"


def _head(config: Config, _data: DataFacts, _machine: Machine) -> Answer:
    method = Method.registry[config.method.name]
    if has_weights(config.model):
        return method.pretrained_head, f"the head of {method.name} from loaded weights"
    return method.predicting_head, f"the head of {method.name}"


def _folds(config: Config, _data: DataFacts, _machine: Machine) -> Answer:
    if issubclass(Method.registry[config.method.name], FittedMethod):
        return FITTED_FOLDS, "a head is fitted in seconds"
    if not has_weights(config.model):
        return 0, "a run from random weights is not compared with a linear probe"
    return TRAINED_FOLDS[config.model.tune], f"each takes as long as the run, tune={config.model.tune}"


def _every(part: int, most: int) -> Rule:
    """Return the rule of an interval: a part of the run, and at most so many steps."""

    def rule(config: Config, _data: DataFacts, _machine: Machine) -> Answer:
        return max(1, min(config.training.total_steps // part, most)), f"about {part} times per run"

    return rule


RULES: dict[str, Rule] = {
    "method.name": _method,
    "data.image_size": _image_size,
    "data.validation": _validation,
    "labels.source": _label_source,
    "labels.path": _label_path,
    "labels.eps": _eps,
    "model.stem": _stem,
    "model.tune": _from_weights("heads", "all"),
    "model.freeze_norm": _from_weights(True, False),
    "model.heads_init": _from_weights("probe", "random"),
    "training.steps": _steps,
    "training.device": _device,
    "training.precision": _precision,
    "training.frozen_engine": _frozen_engine,
    "training.recompute": _recompute,
    "training.skip": _skip,
    "training.log_every": _every(50, 200),
    "training.validate_every": _every(20, 2000),
    "training.checkpoint_every": _every(10, 1000),
    "optim.lr": _lr,
    "optim.backbone_lr": _backbone_lr,
    "optim.start_decay": _start_decay,
    "evaluation.head": _head,
    "evaluation.folds": _folds,
}
# Fields in which null, not "auto", leaves the choice to the rule.
OPEN_IF_NULL = frozenset(
    {
        "data.image_size",
        "labels.path",
        "training.steps",
    }
)
