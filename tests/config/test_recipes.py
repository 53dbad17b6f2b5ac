"""Recipes are valid, compose, and are exactly what they say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from semco.cli.main import app
from semco.config import Config, configure, flat_fields
from semco.config.datasets import DATASETS
from semco.config.layers import layers_of, origins
from semco.config.recipes import OURS, expand_recipes, published_error, recipes
from semco.data.sources import REGISTERED, load
from semco.errors import UserError

# Every field of a configuration, as the paper has it ("text": main text; "supp.": supplement); None where the paper
# says nothing and the value is that of our software or of the machine.
PAPER: dict[str, Any] = {
    "data.source": "cifar100",
    "data.root": None,
    "data.classes": None,
    "data.labels_from": None,
    "data.unlabeled": None,
    "data.labelled_from": None,
    "data.labels_per_class": None,
    "data.num_labels": 2500,  # Table 1
    "data.label_spread": "even",  # Table 1: the same number of labels for each class
    "data.imbalance": 1.0,
    "data.pool": "unlabelled",  # text, Experimental Setup: the remaining samples form the unlabelled set
    "data.validation": "none",  # no labels are held out
    "data.validation_size": 500,  # not used
    "data.image_size": None,  # text: 32x32
    "data.memory": 512,
    "data.strict": False,
    "labels.source": "plain",  # supp. B, built as it says
    "labels.path": None,
    "labels.encoder": None,
    "labels.prompts": ["a photo of a {}."],  # not used
    "labels.aliases": {},
    "labels.strict_names": False,
    "labels.unknown_names": "own",  # whatever is installed
    "labels.together": [],
    "labels.apart": [],
    "labels.eps": 0.2,  # supp., table of hyper-parameters
    "labels.min_groups": 1,
    "labels.dim": 128,  # supp., emb_dim
    "labels.targets": "embedding",
    "model.backbone": "wrn-28-2",  # text, Experimental Setup
    "model.pretrained": "published",  # this backbone has no published weights
    "model.weights": None,
    "model.stem": "auto",
    "model.norm": "batch",
    "model.norm_warmup": False,
    "model.semantic_head": "linear",  # text: "a fully connected layer"
    "model.mlp_hidden": 2048,  # not used
    "model.tune": "auto",  # no weights are loaded: all
    "model.freeze_norm": "auto",  # no weights are loaded: not frozen
    "model.heads_init": "auto",  # no weights are loaded: random
    "model.cached_views": 6,  # not used
    "augment.pad": 0.125,  # not used: pad_pixels decides
    "augment.pad_pixels": 4,
    "augment.flip": True,  # supp., Augmentations
    "augment.operations": 2,
    "augment.cutout": 0.5,
    "method.name": "semco",
    "method.lambda_u": 1.0,  # supp.
    "method.lambda_co": 1.0,  # supp.
    "method.semantic_weight": 3.0,  # supp., Semantic Classifier Loss
    "method.scale": "solved",
    "method.perfect_score": 0.9,
    "method.on_disagreement": "both",  # text, Co-training Loss
    "method.tau_e": 0.7,  # supp.
    "method.tau_o": 0.95,  # supp.
    "method.semantic_loss": "cosine",  # text, Eq. 3 and 5
    "optim.lr": 0.03,  # supp.
    "optim.backbone_lr": "auto",  # no weights are loaded: that of the heads
    "optim.momentum": 0.9,  # supp.
    "optim.nesterov": True,  # supp.
    "optim.weight_decay": 5e-4,  # supp.
    "optim.start_decay": 0.0,  # Eq. 9 has no such term
    "optim.warmup": 10 / 300,  # not used: warmup_epochs decides
    "optim.warmup_epochs": 10,  # supp.: 10 epochs warmup then cosine decay
    "optim.schedule": "cosine",
    "training.steps": None,
    "training.epochs": 300,  # supp.
    "training.minutes": None,
    "training.images_per_epoch": 64 * 1024,  # supp.
    "training.batch_size": 64,  # supp.
    "training.mu": 3,  # supp.
    "training.ema_decay": 0.999,  # supp., Inference
    "training.ema_warmup": False,
    "training.seed": 0,
    "training.log_every": "auto",
    "training.validate_every": "auto",
    "training.checkpoint_every": "auto",
    "training.target_views": "joint",
    "training.device": "auto",
    "training.precision": "auto",
    "training.frozen_engine": "auto",
    "training.recompute": "auto",
    "training.statistics": True,
    "training.sync_batch_norm": False,
    "training.skip": False,
    "evaluation.head": "one_hot",  # supp., Inference
    "evaluation.folds": 0,  # the paper compares with no linear probe
    "evaluation.batch_size": 256,
}
# What the authors' released code has instead.
REFERENCE = {
    "method.name": "semco_reference",
    "method.scale": "authors",
    "labels.min_groups": 6,
    "model.semantic_head": "mlp_except_resnet50",
    "optim.schedule": "cosine_7_16",
    "optim.warmup_epochs": 0,
}
# Table 1 and 2: data set -> backbone, image size, eps.
DATA = {
    "cifar10": ("wrn-28-2", None, 0.2),
    "cifar100": ("wrn-28-2", None, 0.2),
    "mini-imagenet": ("resnet18", 84, 0.3),
    "cub200": ("resnet50", 224, 0.2),
    "domainnet-real": ("resnet50", 224, 0.2),
}


def fields_of(recipe: str, **sections: Any) -> dict[str, Any]:
    return flat_fields(configure(recipe, options=sections).model_dump(mode="json"))


def test_the_paper_recipe_is_the_paper_in_every_field() -> None:
    fields = fields_of("cifar100-2500-mu3,semco")
    assert fields == PAPER  # names and values, none left out
    assert fields_of("cifar100-2500-mu3") == fields == fields_of("cifar100-2500-mu3,paper")
    assert fields_of("cifar100-2500-mu7") == fields | {"training.mu": 7}


def test_the_reference_recipe_is_the_released_code() -> None:
    assert fields_of("cifar100-2500-mu3,reference") == PAPER | REFERENCE


@pytest.mark.parametrize("cell", [name for name, recipe in recipes().items() if recipe.published])
def test_every_cell_of_the_tables(cell: str) -> None:
    data, labels, mu = re.fullmatch(r"(.+)-(\d+)-mu(\d)", cell).groups()  # type: ignore[union-attr]
    backbone, size, eps = DATA[data]
    own = {
        "data.source": data,
        "data.num_labels": int(labels),
        "data.image_size": size,
        "training.mu": int(mu),
        "model.backbone": backbone,
        "labels.eps": eps,
        "labels.source": "attributes" if data == "cub200" else "plain",
    }
    assert fields_of(cell) == PAPER | own


def test_published_errors_stand_beside_published_settings_only() -> None:
    assert published_error(["cifar100-2500-mu7", "semco"]) == published_error(["cifar100-2500-mu7"]) == "31.93±0.01"
    assert published_error(["cifar100-2500-mu7", "fixmatch"]) == "33.64±0.07"
    assert published_error(["cub200-1000-mu3", "paper", "semco"]) == "79.44"
    assert published_error(["cifar100-2500-mu7", "semco_plus"]) == OURS == "SemCo+ (ours), not published"
    for others in (["cpu"], ["no-grouping"], ["reference"], ["semco", "cpu"], ["freematch"], ["semco", "fixmatch"]):
        assert published_error(["cifar100-2500-mu7", *others]) == ""
    assert published_error(["semco"]) == published_error(["paper"]) == published_error(["demo"]) == ""


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_is_a_valid_configuration(name: str) -> None:
    config = configure(name)
    assert Config.from_yaml(config.to_yaml()) == config


# Flags of the released code: adamatch's defaults, ProtoCon's script for CIFAR-10, FineSSL's file for CIFAR-10.
RELEASED = {
    "adamatch-published": {"lr": 0.03, "weight_decay": 1e-3, "nesterov": False, "steps": (8 << 20) // 64, "mu": 3},
    "protocon-published": {"lr": 0.03, "weight_decay": 5e-4, "nesterov": True, "steps": 5001 * (49960 // 448), "mu": 7},
    "finessl-published": {"lr": 0.03, "weight_decay": 5e-4, "nesterov": False, "steps": 30 * 500, "mu": 1},
}


@pytest.mark.parametrize("name", RELEASED)
def test_published_settings_of_other_methods(name: str) -> None:
    config = configure(name)
    training, optim = config.training, config.optim
    found = {"lr": optim.lr, "weight_decay": optim.weight_decay, "nesterov": optim.nesterov}
    assert found | {"steps": training.steps, "mu": training.mu} == RELEASED[name]
    assert config.method.name == name.partition("-")[0]
    assert training.target_views == "joint"


def test_fine_tuning_trains_all_layers_on_labels_alone() -> None:
    config = configure("photos,fine-tuning")
    assert (config.method.name, config.model.tune, config.model.backbone) == ("supervised", "all", "efficientnet-lite0")


def test_recipes_are_layers() -> None:
    config = configure("cifar100-2500-mu7,semco,no-grouping")
    assert (config.method.name, config.labels.eps, config.training.mu) == ("semco", 0.0, 7)
    ours = configure("cifar100-2500-mu7,semco_plus,no-cotraining")
    assert (ours.method.name, ours.method.lambda_co, ours.optim.lr) == ("semco_plus", 0.0, 0.03)  # type: ignore[attr-defined]
    small = configure("cifar100-2500-mu3,semco,cpu")
    assert (small.training.total_steps, small.training.epochs, small.model.backbone) == (600, None, "wrn-10-1")
    assert list(expand_recipes(["cifar100-2500-mu7", "reference"])) == ["paper", "cifar100-2500-mu7", "reference"]


def test_a_recipe_for_images_that_lie_somewhere_asks_for_them() -> None:
    with pytest.raises(UserError, match=r"set data.root to the folder of cub200; it contains CUB_200_2011/"):
        load(configure("cub200-1000-mu3,semco").data)
    assert configure("cub200-1000-mu3,semco", settings=["data.source=birds"]).data.source == "birds"


def test_a_registered_data_set_brings_its_defaults() -> None:
    config = configure(options={"data": {"source": "mini-imagenet"}})
    assert (config.model.backbone, config.data.image_size, config.labels.eps) == ("resnet18", 84, 0.3)
    other = configure(options={"data": {"source": "mini-imagenet"}}, settings=["model.backbone=wrn-28-2"])
    assert (other.model.backbone, other.data.image_size) == ("wrn-28-2", 84)
    assert configure(options={"data": {"source": "cifar10"}}).model_dump(exclude={"data"}) == configure().model_dump(
        exclude={"data"}
    )


def test_the_default_run() -> None:
    config = configure()
    assert config.method.name == "auto"
    assert config.training.total_steps == 300 * 1024
    assert config.optim.warmup * config.training.total_steps == pytest.approx(10 * 1024)


def test_registered_data_sets_have_one_list() -> None:
    assert set(DATASETS) == set(REGISTERED)


def test_origins_name_the_layer_of_each_value_that_is_no_default(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("training: {mu: 5}\n")
    layers = layers_of("cifar100-2500-mu3,no-grouping", file, {"data": {"num_labels": 100}}, ["optim.lr=0.2"])
    found = origins(layers)
    assert found["labels.eps"] == "recipe no-grouping"
    assert found["training.mu"] == f"file {file}"
    assert found["data.num_labels"] == "options"
    assert found["optim.lr"] == "setting optim.lr=0.2"
    assert found["method.name"] == found["training.ema_warmup"] == "recipe paper"
    assert "training.batch_size" not in found  # at its default, although the recipe sets it
    assert "training.seed" not in found


def test_the_config_command_prints_what_a_run_would_use() -> None:
    arguments = ["config", "--recipe", "cifar100-2500-mu7,semco,no-grouping", "--set", "training.seed=3"]
    printed = CliRunner().invoke(app, [*arguments, "--json"])
    assert printed.exit_code == 0
    expected = configure("cifar100-2500-mu7,semco,no-grouping", settings=["training.seed=3"])
    assert json.loads(printed.stdout) == expected.model_dump(mode="json")
    table = CliRunner(env={"COLUMNS": "200"}).invoke(app, arguments).stdout
    lines = {line.split()[0]: line.split(maxsplit=2)[1:] for line in table.splitlines()[1:] if line.split()}
    assert [part.strip() for part in lines["labels.eps"]] == ["0.0", "recipe no-grouping"]
    assert [part.strip() for part in lines["training.seed"]] == ["3", "setting training.seed=3"]
    assert [part.strip() for part in lines["training.batch_size"]] == ["64"]


def rows_of_table(*arguments: str) -> dict[str, list[str]]:
    """Return the cells of each field in the table of `semco config`."""
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["config", *arguments])
    assert shown.exit_code == 0, shown.output
    lines = [line for line in shown.stdout.splitlines() if line.strip()]
    starts = [lines[0].index(name) for name in ("field", "asked for", "used", "why")]
    cells = [[line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)] for line in lines[1:]]
    return {name: rest for name, *rest in cells}


def test_the_config_command_shows_what_is_used_and_why() -> None:
    rows = rows_of_table("fashion-mini", "--set", "data.labels_per_class=4", "--set", "model.backbone=wrn-10-1")
    assert rows["data.labels_per_class"] == ["4", "", "setting data.labels_per_class=4"]
    assert rows["data.validation"] == ['"auto"', '"train"', "5,960 training images have a label that is not used"]
    assert rows["data.image_size"] == ["null", "28", "the size of the images as they were read"]
    assert rows["training.mu"] == ["3", "", ""]
    # As `semco train fashion-mini` would do it.
    assert rows["training.minutes"] == ["15.0", "null", ""]
    why = "at most: 300 epochs, as in the paper; fewer if they do not fit into 15 minutes"
    assert rows["training.steps"] == ["null", "307200", why]
    assert rows_of_table("fashion-mini", "--recipe", "demo")["training.steps"] == ["400", "", "recipe demo"]


def test_the_config_command_takes_the_options_of_train(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of_table("fashion-mini", "--method", "fixmatch", "--labels-per-class", "4", "--backbone", "wrn-10-1")
    assert rows["method.name"] == ['"fixmatch"', "", "options"]
    assert rows["method.tau"] == ["0.95", "", ""]
    assert rows["data.labels_per_class"] == ["4", "", "options"]
    monkeypatch.setattr("semco.models.pretrained.is_installed", lambda _: True)
    shown = CliRunner().invoke(app, ["config", "fruit-mini", "--backbone", "wrn-10-1", "--json"])
    assert Config.parse(json.loads(shown.stdout)).model.backbone == "wrn-10-1"  # without the recipe of photos


def test_the_names_of_fields_are_not_cut_in_a_narrow_terminal() -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["config", "--recipe", "paper"]).stdout.splitlines()
    names = {line.split(" ")[0] for line in shown}
    assert set(flat_fields(configure("paper").model_dump(mode="json"))) <= names
    assert max(map(len, shown)) <= 80


def test_the_config_command_takes_the_recipe_of_photos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semco.models.pretrained.is_installed", lambda _: True)
    shown = CliRunner().invoke(app, ["config", "fruit-mini", "--json"])
    request = Config.parse(json.loads(shown.stdout))
    assert (request.model.backbone, request.training.minutes) == ("efficientnet-lite2", 15)


def test_the_recipes_command_lists_ours_as_not_published() -> None:
    listed = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["recipes"]).stdout
    assert re.search(r"cifar100-2500-mu7,semco +31\.93±0\.01", listed)
    assert re.search(r"cifar100-2500-mu7,semco_plus +SemCo\+ \(ours\), not published", listed)
    assert len(re.findall(r"±|79\.44|66\.76|35\.32|32\.89|84\.35|72\.15|41\.34|39\.04", listed)) == 40


def test_the_later_wins(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("training: {steps: 7, mu: 2}\nmethod: {name: fixmatch, tau: 0.8}\n")
    config = configure("demo", file, {"training": {"mu": 5}}, ["training.mu=6", "method.tau=0.7"])
    assert config.training.steps == 7
    assert config.training.mu == 6
    assert config.method.name == "fixmatch"
    assert config.method.tau == 0.7
    assert config.data.labels_per_class == 4


def test_one_way_to_give_the_length_replaces_the_other() -> None:
    assert configure("cifar10-250-mu3", options={"training": {"steps": 5}}).training.total_steps == 5
    assert configure("demo", options={"data": {"num_labels": 50}}).data.labels_per_class is None


def test_another_method_starts_with_its_own_fields() -> None:
    config = configure("semco_plus,no-cotraining", options={"method": {"name": "fixmatch"}})
    assert config.method.name == "fixmatch"
    kept = configure("semco_plus,no-cotraining", options={"method": {"name": "semco_plus"}})
    assert kept.method.lambda_co == 0.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("training.steps", "dotted.key=value"),
        ("=3", "dotted.key=value"),
        ("training.stepz=3", "did you mean 'steps'"),
        ("method.lambda_x=3", "did you mean 'lambda_u'"),
        ("training.steps=many", "training.steps = 'many'"),
        ("labels.eps=lots", "labels.eps = 'lots'"),
        ("optim.schedule=linear", "'cosine'"),
    ],
)
def test_a_bad_setting_is_named(setting: str, expected: str) -> None:
    with pytest.raises(UserError, match=re.escape(expected)):
        configure(settings=[setting])


def test_a_configuration_file_that_is_not_one(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("training: [")
    with pytest.raises(UserError, match="not valid YAML"):
        configure(file=file)
    file.write_text("- a\n- b\n")
    with pytest.raises(UserError, match="mapping"):
        configure(file=file)


def test_paths_are_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "vectors.npy").touch()
    (tmp_path / "cifar10").mkdir()
    config = configure(options={"data": {"source": "photos"}}, settings=["labels.path=vectors.npy", "data.root=gone"])
    assert config.data.source == str(tmp_path / "photos")
    assert config.labels.path == tmp_path / "vectors.npy"
    assert config.data.root == Path("gone")  # where there is nothing, the error is to say what was typed
    assert configure(options={"data": {"source": "cifar10"}}).data.source == "cifar10"


def test_an_unknown_recipe_is_answered_by_the_closest_ones() -> None:
    with pytest.raises(UserError) as error:
        configure("cifar100-2500")
    assert str(error.value) == (
        "unknown recipe 'cifar100-2500'; did you mean 'cifar100-2500-mu7' or 'cifar100-2500-mu3' or "
        "'cifar10-250-mu7'? 'semco recipes' and 'semco methods' list all."
    )
    with pytest.raises(UserError, match=r"^unknown recipe 'zzz'\. 'semco recipes' and 'semco methods' list all\.$"):
        configure("zzz")
