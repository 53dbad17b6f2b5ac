"""Every rule for a field that a request may leave open, with facts written by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from semco.config import AUTO, Config, configure, flat_fields
from semco.errors import UserError
from semco.labels import LabelEmbeddings
from semco.methods import Method
from semco.resolve import DataFacts, Machine, Resolution, method_of, resolve
from semco.resolve.rules import MOST_STEPS, OPEN_IF_NULL, PROBE_DECAY, RULES, is_open, value_of

NAMES = ("dog", "cat", "ship", "truck")
CPU, GPU = Machine(has_gpu=False), Machine(has_gpu=True, has_bfloat16=True)
LITE = "efficientnet-lite0"  # has published weights


def vectors() -> LabelEmbeddings:
    """Vectors of a source whose own eps is 0.3."""
    matrix = np.eye(len(NAMES), dtype=np.float32)
    return LabelEmbeddings(NAMES, matrix, NAMES, ("exact",) * 4, "by hand", default_eps=0.3)


def facts(**changes: Any) -> DataFacts:
    """Return 160 square photos of four classes; 16 labels are used, and the others are known."""
    plain = DataFacts(
        num_classes=len(NAMES),
        num_labels=16,
        spare_labels=144,
        images=160,
        image_size=(32, 32),
        channels=3,
        has_validation=False,
        attributes=None,
        label_vectors=lambda _: vectors(),
    )
    return replace(plain, **changes)


def answer(name: str, data: DataFacts | None = None, /, machine: Machine = CPU, **sections: Any) -> Any:
    """Return the value of a field that a request leads to."""
    return value_of(resolve(Config.parse(sections), data or facts(), machine).config, name)


def loaded(**model: Any) -> dict[str, Any]:
    """Return the section of a model that starts from loaded weights."""
    return {"backbone": LITE, **model}


# --- the whole ---


def open_fields(config: Config) -> list[str]:
    """Return the fields that are "auto", and the length if it is missing."""
    found = [name for name, value in flat_fields(config.model_dump(mode="json")).items() if value == AUTO]
    return found + (["training.steps"] if config.training.steps is None else [])


def assert_whole(request: Config, resolution: Resolution) -> None:
    assert not open_fields(resolution.config)
    asked = {name for name in RULES if is_open(name, request)}
    assert set(resolution.reasons) == asked
    assert all(reason.strip() for reason in resolution.reasons.values())


@pytest.mark.parametrize("machine", [CPU, GPU])
@pytest.mark.parametrize("method", sorted(Method.registry))
def test_nothing_stays_open_for_any_method(method: str, machine: Machine) -> None:
    request = Config.parse({"method": method})
    assert_whole(request, resolve(request, facts(), machine))


@pytest.mark.parametrize("recipe", ["paper", "photos", "demo", "reference", "cpu"])
def test_nothing_stays_open_for_any_recipe(recipe: str) -> None:
    request = configure(recipe)
    resolution = resolve(request, facts(), CPU)
    assert_whole(request, resolution)
    # What was asked for is what is used.
    asked, used = (flat_fields(each.model_dump(mode="json")) for each in (request, resolution.config))
    ends = {"training.epochs", "training.minutes"}
    assert {name for name in asked if asked[name] != used[name]} <= set(RULES) | ends


@pytest.mark.parametrize("sections", [{}, {"model": {"backbone": LITE}}, {"training": {"minutes": 2}}])
def test_the_same_request_leads_to_the_same_configuration(sections: dict[str, Any]) -> None:
    request = Config.parse(sections)
    one, two = resolve(request, facts(), CPU), resolve(request, facts(), CPU)
    assert (one.config, one.reasons) == (two.config, two.reasons)
    assert request == Config.parse(sections)  # it was not changed
    assert Config.from_yaml(one.config.to_yaml()) == one.config


def test_a_resolved_configuration_is_a_request_for_itself() -> None:
    once = resolve(configure("photos"), facts(), CPU).config
    assert resolve(once, facts(image_size=(32, 32)), GPU).config == once


def test_every_rule_is_for_a_field_that_can_be_open() -> None:
    defaults = flat_fields(Config().model_dump(mode="json"))
    assert {name for name, value in defaults.items() if value == AUTO} == set(RULES) - OPEN_IF_NULL
    assert all(defaults[name] is None for name in OPEN_IF_NULL)


def test_a_given_value_is_kept_without_a_reason() -> None:
    request = Config.parse({"optim": {"lr": 0.2}, "model": {"tune": "all"}})
    resolution = resolve(request, facts(), CPU)
    assert (resolution.config.optim.lr, resolution.config.model.tune) == (0.2, "all")
    assert not {"optim.lr", "model.tune"} & set(resolution.reasons)


def test_a_head_that_the_method_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match=r"head=semantic needs a semantic head, which fixmatch does not have"):
        answer("evaluation.head", method="fixmatch", evaluation={"head": "semantic"})


def test_a_single_fold_is_refused() -> None:
    with pytest.raises(UserError, match=r"folds=1 would hold out all labels at once; give 0 for none, or 2 or more"):
        answer("evaluation.head", evaluation={"folds": 1})


def test_a_warm_up_that_does_not_end_is_refused() -> None:
    def config(epochs: float) -> Config:
        return resolve(configure("paper", settings=[f"training.epochs={epochs}"]), facts(), CPU).config

    assert config(100).optim.warmup_epochs == 10
    with pytest.raises(UserError, match=r"warmup_epochs=10 are 10,240 steps, but the run has only 5,120; .* for 3% of"):
        config(5)
    assert resolve(configure("paper,cpu"), facts(), CPU).config.optim.warmup_epochs is None


# --- data ---


@pytest.mark.parametrize(("size", "expected"), [((32, 32), 32), ((28, 32), None)])
def test_the_size_of_the_images(size: tuple[int, int], expected: int | None) -> None:
    assert answer("data.image_size", facts(image_size=size)) == expected
    assert answer("data.image_size", facts(image_size=size), data={"image_size": 16}) == 16


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "train"),  # labels that are not used
        ({"spare_labels": 0}, "none"),  # 16 labels are few
        ({"spare_labels": 0, "num_labels": 200, "num_classes": 2}, "labelled"),
        ({"spare_labels": 0, "num_labels": 198, "num_classes": 2}, "none"),
        ({"spare_labels": 0, "num_labels": 209, "num_classes": 11}, "none"),  # 19 per class
        ({"images": 9, "spare_labels": 2}, "none"),  # a tenth of nine images is none
        ({"has_validation": True}, "none"),  # besides the data's own
    ],
)
def test_where_validation_images_come_from(changes: dict[str, Any], expected: str) -> None:
    assert answer("data.validation", facts(**changes)) == expected
    assert answer("data.validation", facts(**changes), data={"validation": "labelled"}) == "labelled"


# --- label vectors and groups ---


def test_class_attributes_beside_the_images_are_used() -> None:
    with_table = facts(attributes=Path("attributes.csv"))
    assert answer("labels.source") == "bundled"
    assert answer("labels.path") is None
    assert answer("labels.source", with_table) == "attributes"
    assert answer("labels.path", with_table) == Path("attributes.csv")
    assert answer("labels.path", with_table, labels={"source": "bundled"}) is None
    assert answer("labels.path", with_table, labels={"path": "mine.csv"}) == Path("mine.csv")


def test_eps_is_the_default_of_the_label_vectors() -> None:
    assert answer("labels.eps") == 0.3
    assert answer("labels.eps", labels={"eps": 0.2}) == 0.2
    assert answer("labels.eps", facts(label_vectors=lambda _: None)) == 0.0


# --- the network ---


@pytest.mark.parametrize(("size", "stem"), [((32, 32), "small"), ((64, 64), "small"), ((65, 65), "large")])
def test_the_first_layers_follow_the_size_of_the_images(size: tuple[int, int], stem: str) -> None:
    assert answer("model.stem", facts(image_size=size)) == stem


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({}, ("all", False, "random")),
        (loaded(), ("heads", True, "probe")),
        ({"backbone": "hf:some/model", "tune": "heads"}, ("heads", True, "probe")),
        ({"weights": "mine.safetensors"}, ("heads", True, "probe")),
        (loaded(pretrained="none"), ("all", False, "random")),
        (loaded(pretrained="none", weights="mine.safetensors"), ("heads", True, "probe")),
        (loaded(tune="all", freeze_norm=False, heads_init="random"), ("all", False, "random")),
    ],
)
def test_loaded_weights_are_kept(model: dict[str, Any], expected: tuple[str, bool, str]) -> None:
    config = resolve(Config.parse({"model": model}), facts(), CPU).config.model
    assert (config.tune, config.freeze_norm, config.heads_init) == expected


# --- the length ---


@pytest.mark.parametrize(
    ("sections", "steps"),
    [
        ({}, 300 * 1024),  # as in the paper
        ({"training": {"epochs": 0.5}}, 512),
        ({"training": {"epochs": 1e-6}}, 1),
        ({"training": {"steps": 7}}, 7),
        ({"training": {"minutes": 2}}, 300 * 1024),  # the most; how many fit is known after some were timed
        ({"model": {"backbone": LITE}}, MOST_STEPS),
        ({"model": {"backbone": LITE}, "training": {"epochs": 1}}, 1024),
    ],
)
def test_the_length_of_a_run(sections: dict[str, Any], steps: int) -> None:
    training = resolve(Config.parse(sections), facts(), CPU).config.training
    assert (training.steps, training.epochs, training.minutes) == (steps, None, None)


def test_a_number_of_minutes_allows_at_most_so_many_steps() -> None:
    reasons = resolve(Config.parse({"training": {"minutes": 2}}), facts(), CPU).reasons
    assert reasons["training.steps"].startswith("at most: 300 epochs")
    assert reasons["training.steps"].endswith("fewer if they do not fit into 2 minutes")


@pytest.mark.parametrize(
    ("steps", "log", "validate", "save"),
    [(1, 1, 1, 1), (100, 2, 5, 10), (600, 12, 30, 60), (307_200, 200, 2000, 1000)],
)
def test_how_often_something_is_written(steps: int, log: int, validate: int, save: int) -> None:
    training = resolve(Config.parse({"training": {"steps": steps}}), facts(), CPU).config.training
    assert (training.log_every, training.validate_every, training.checkpoint_every) == (log, validate, save)


# --- the machine ---


def test_a_gpu_is_used_if_there_is_one() -> None:
    assert (answer("training.device"), answer("training.device", machine=GPU)) == ("cpu", "cuda")
    assert answer("training.device", machine=GPU, training={"device": "cpu"}) == "cpu"


@pytest.mark.parametrize(
    ("device", "machine", "precision"),
    [
        ("cpu", GPU, "float32"),  # that of the GPU beside it does not count
        ("cuda", GPU, "bfloat16"),
        ("cuda:1", GPU, "bfloat16"),
        ("cuda", Machine(has_gpu=True), "float32"),
    ],
)
def test_bfloat16_on_gpus_that_have_it(device: str, machine: Machine, precision: str) -> None:
    assert answer("training.precision", machine=machine, training={"device": device}) == precision


def test_the_user_hears_of_bfloat16() -> None:
    wanted = Config.parse({"training": {"precision": "bfloat16", "device": "cpu"}})
    assert "many times as long" in resolve(wanted, facts(), CPU).notes[0]
    assert "computes in bfloat16" in resolve(Config.parse({}), facts(), GPU).notes[0]
    assert resolve(Config.parse({}), facts(), CPU).notes == ()
    gpu = Config.parse({"training": {"precision": "bfloat16", "device": "cuda"}})
    with pytest.raises(UserError, match=r"this GPU has no bfloat16: set training\.precision=float32"):
        resolve(gpu, facts(), Machine(has_gpu=True))


@pytest.mark.parametrize("name", ["linear_probe", "semantic_probe"])
def test_a_head_on_random_features_is_mentioned(name: str) -> None:
    random = Config.parse({"method": {"name": name}, "model": {"backbone": "wrn-10-1"}})
    (note,) = resolve(random, facts(), CPU).notes
    assert f"{name} is fitted to the features of wrn-10-1, whose weights are random" in note
    assert f"model.backbone={configure('photos').model.backbone} has weights" in note
    loaded = Config.parse({"method": {"name": name}, "model": {"backbone": "efficientnet-lite0"}})
    assert resolve(loaded, facts(), CPU).notes == ()


ALL = Machine(has_gpu=True, engines=frozenset({"openvino", "onnx", "torch"}))


@pytest.mark.parametrize(
    ("engines", "chosen"),
    [({"openvino", "onnx", "torch"}, "openvino"), ({"onnx", "torch"}, "onnx"), ({"torch"}, "torch"), (set(), "torch")],
)
def test_frozen_layers_run_in_the_fastest_engine_that_is_installed(engines: set[Any], chosen: str) -> None:
    machine, photos = replace(CPU, engines=frozenset(engines)), facts(image_size=(224, 224))
    assert answer("training.frozen_engine", photos, machine, model=loaded()) == chosen


@pytest.mark.parametrize(
    ("data", "sections"),
    [
        ({}, {"model": loaded(tune="all")}),
        ({}, {"model": loaded(), "training": {"device": "cuda"}}),
        ({}, {"model": loaded(), "training": {"device": "cpu", "precision": "bfloat16"}}),
        ({"images": 99}, {"model": loaded(), "training": {"device": "cpu"}}),  # 99 * 224 * 224 pixels
    ],
)
def test_frozen_layers_run_in_torch_where_another_engine_cannot_or_does_not_pay(
    data: dict[str, Any], sections: dict[str, Any]
) -> None:
    photos = facts(**{"image_size": (224, 224), **data})
    assert answer("training.frozen_engine", photos, ALL, **sections) == "torch"


@pytest.mark.parametrize(("device", "recompute"), [("cpu", True), ("cuda", False), ("cuda:1", False)])
def test_activations_are_recomputed_on_cpus(device: str, recompute: bool) -> None:
    assert answer("training.recompute", training={"device": device}) is recompute


@pytest.mark.parametrize(
    ("sections", "skip"),
    [
        ({"model": {"norm": "none"}}, True),
        ({"model": {"freeze_norm": True}}, True),
        ({}, False),  # batch normalisation would see other images
        ({"model": {"norm": "none"}, "training": {"target_views": "joint"}}, False),
        ({"model": {"norm": "none"}, "training": {"sync_batch_norm": True}}, False),
        ({"model": {"norm": "none"}, "training": {"device": "cuda"}}, False),  # counting would make a GPU wait
        ({"model": loaded()}, False),  # only the heads are trained
        ({"model": loaded(tune="top")}, True),
        ({"model": loaded(tune="top", freeze_norm=False)}, False),
        ({"training": {"skip": True}}, True),
        ({"model": {"norm": "none"}, "training": {"skip": False}}, False),
    ],
)
def test_images_without_weight_are_skipped_where_that_is_exact(sections: dict[str, Any], skip: bool) -> None:
    assert answer("training.skip", **sections) is skip


# --- the optimiser ---


@pytest.mark.parametrize(
    ("steps", "rate"), [(1, 0.1), (500, 0.1), (307_200, 0.03), (10**6, 0.03), (12394, math.sqrt(0.1 * 0.03))]
)
def test_short_runs_learn_faster_and_long_ones_as_in_the_paper(steps: int, rate: float) -> None:
    """12,394 is the geometric mean of 500 and 307,200."""
    training = {"steps": steps}
    assert answer("optim.lr", training=training) == pytest.approx(rate, rel=1e-4)
    assert answer("optim.lr", training=training, optim={"lr": 0.2}) == 0.2


@pytest.mark.parametrize(
    ("tune", "rate", "backbone"),
    [("heads", 0.03, 0.003), ("top", 0.03, 0.003), ("all", 0.003, 0.0003)],  # at 0.03 the backbone is destroyed
)
def test_a_loaded_backbone_learns_at_a_tenth_of_the_heads_rate(tune: str, rate: float, backbone: float) -> None:
    model = loaded(tune=tune)
    assert answer("optim.lr", model=model) == rate
    assert answer("optim.backbone_lr", model=model) == pytest.approx(backbone)
    assert answer("optim.backbone_lr", model=model, optim={"lr": 0.2}) == pytest.approx(0.02)


@pytest.mark.parametrize("steps", [1, 500, 307_200])
def test_a_backbone_from_scratch_learns_at_the_rate_of_the_heads(steps: int) -> None:
    for optim in ({}, {"lr": 0.2}):
        config = resolve(Config.parse({"training": {"steps": steps}, "optim": optim}), facts(), CPU).config
        assert config.optim.backbone_lr == config.optim.lr


@pytest.mark.parametrize(("model", "rate"), [({}, 0.1), (loaded(), 0.03)])
def test_a_given_backbone_rate_is_used(model: dict[str, Any], rate: float) -> None:
    request = Config.parse({"model": model, "optim": {"backbone_lr": 0.007}, "training": {"steps": 500}})
    config = resolve(request, facts(), CPU).config
    assert (config.optim.lr, config.optim.backbone_lr) == (rate, 0.007)


@pytest.mark.parametrize(
    ("model", "start_decay", "expected"),
    [
        ({}, AUTO, 0.0),
        ({"heads_init": "probe"}, AUTO, PROBE_DECAY),
        (loaded(), AUTO, PROBE_DECAY),
        (loaded(heads_init="random"), AUTO, 0.0),
        (loaded(pretrained="none"), AUTO, 0.0),
        (loaded(), 0.5, 0.5),
    ],
)
def test_heads_that_start_from_a_probe_stay_near_it(model: dict[str, Any], start_decay: Any, expected: float) -> None:
    assert answer("optim.start_decay", model=model, optim={"start_decay": start_decay}) == expected


# --- the head that predicts ---


@pytest.mark.parametrize(
    ("method", "model", "head"),
    [
        ("semco", {}, "one_hot"),
        ("semco", loaded(), "one_hot"),
        ("semco_plus", {}, "one_hot"),
        ("semco_plus", loaded(), "average"),
        ("devise", {}, "semantic"),
        ("devise", loaded(), "semantic"),
        ("fixmatch", loaded(), "one_hot"),
    ],
)
def test_the_head_that_predicts_is_that_of_the_method(
    method: str, model: dict[str, Any], head: Literal["one_hot", "semantic", "average"]
) -> None:
    assert answer("evaluation.head", method=method, model=model) == head


@pytest.mark.parametrize(
    ("method", "model", "folds"),
    [
        ("semantic_probe", loaded(), 5),
        ("fixmatch", loaded(), 3),
        ("fixmatch", loaded(tune="top"), 2),
        ("fixmatch", loaded(tune="all"), 0),
        ("fixmatch", {}, 0),
    ],
)
def test_folds(method: str, model: dict[str, Any], folds: int) -> None:
    assert answer("evaluation.folds", method=method, model=model) == folds


# --- the method ---


@pytest.mark.parametrize(
    ("sections", "method"),
    [
        ({}, "semco_plus"),
        ({"model": loaded()}, "semantic_probe"),
        ({"model": loaded(tune="heads"), "training": {"minutes": 3}}, "semantic_probe"),
        ({"model": loaded(pretrained="none")}, "semco_plus"),
        ({"model": loaded(tune="top")}, "semco_plus"),
        ({"model": loaded(), "training": {"steps": 600}}, "semco_plus"),
        ({"model": loaded(), "training": {"epochs": 1}}, "semco_plus"),
        ({"model": loaded(), "method": "fixmatch"}, "fixmatch"),
        ({"model": loaded(), "method": {"lambda_u": 2.0}}, "semco_plus"),  # a field of the default method
    ],
)
def test_a_head_is_fitted_on_loaded_weights_unless_training_is_asked_for(sections: dict[str, Any], method: str) -> None:
    request = Config.parse(sections)
    assert resolve(request, facts(), CPU).config.method.name == method_of(request).name == method
    assert ("method.name" in resolve(request, facts(), CPU).reasons) == ("method" not in sections)


def test_a_method_that_is_fitted_holds_no_labels_out() -> None:
    """They are cross-validated; the images of which labels are to spare are free."""
    many = facts(num_labels=1000, spare_labels=0)
    assert answer("data.validation", many, model=loaded()) == "none"
    assert answer("data.validation", many, model=loaded(), method="semco_plus") == "labelled"
    assert answer("data.validation", facts(), model=loaded()) == "train"
