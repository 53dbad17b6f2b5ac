"""Runs of methods that are fitted: their files, their accuracy beside the probe's, and where the probe is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from semco.config import Config, LabelsConfig, configure, merge
from semco.data.sources import load as load_data
from semco.evaluation.engine import with_engine
from semco.evaluation.metrics import confusion_from_json, confusion_of
from semco.evaluation.model_file import load_model
from semco.evaluation.results import image_batches
from semco.evaluation.run import evaluate_run
from semco.experiment import resume, train
from semco.experiment.continuation import continue_run
from semco.experiment.cross_validation import Measured, fold_positions
from semco.methods.linear_probe import fit_probe
from semco.methods.semantic_probe import SemanticProbe
from semco.models import LinearHead
from semco.models.backbone import close_up
from semco.predict.predictor import load
from semco.report.classes import UNTESTED, class_rows
from semco.report.page import _held_out_verdict
from semco.report.runs import read_run
from semco.run.folder import RunFolder
from semco.run.result import RunResult
from tests.experiment.same_runs import assert_same_run, weights_of
from tests.experiment.test_pretrained_runs import Recorder, without_test_images, write_weights

pytestmark = pytest.mark.usefixtures("no_page", "each_probe_is_fitted_once")
Make = Callable[..., Config]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr("semco.experiment.inputs.cache_folder", lambda _: folder)
    return folder


@pytest.fixture
def make_config(tiny_values: dict[str, Any], tmp_path: Path) -> Make:
    weights = write_weights(tmp_path / "weights.safetensors", seed=5)

    def make(**over: Any) -> Config:
        own = {"data": {"validation": "none"}, "model": {"weights": str(weights)}, "training": {"steps": None}}
        values = merge(merge(tiny_values, own), over)
        return configure(options=values if "method" in over else {k: v for k, v in values.items() if k != "method"})

    return make


@pytest.fixture
def probe_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe is better on these images, which only differ in their brightness."""
    monkeypatch.setattr(Measured, "is_probe_better", lambda _: False)


@pytest.mark.usefixtures("probe_never_kept")
def test_a_request_from_loaded_weights_that_names_no_method_is_fitted(make_config: Make, tmp_path: Path) -> None:
    recorder = Recorder()
    result = train(make_config(), tmp_path / "run", recorder)
    assert (result.method, result.steps) == ("semantic_probe", 0)
    assert RunFolder(tmp_path / "run").request().method.name == "auto"
    assert recorder.loaded == {"looking at the photos": (480, 480)}  # two views of 160 and 80 images, as one figure
    first, solved = (text for text in recorder.messages if "right for" in text)
    assert first.startswith("first answer, a linear probe: right for ")
    assert result.accuracy is not None
    assert result.accuracy.describe() in solved
    assert (result.accuracy.kind, result.accuracy.total) == ("test", 80)
    assert result.probe is not None
    assert result.probe.accuracy is not None
    assert result.probe.accuracy.describe() in first
    assert result.seconds > 0


@pytest.mark.usefixtures("probe_never_kept")
def test_the_saved_model_is_the_head_that_was_fitted(make_config: Make, tmp_path: Path) -> None:
    """It predicts from photos what the run predicted from features that it had stored."""
    result = train(make_config(), tmp_path / "run")
    model = load_model(tmp_path / "run" / "model")
    assert model.description.transform is not None
    assert model.description.transform.has_close_up
    assert evaluate_run(tmp_path / "run").accuracy == result.test_accuracy
    images = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        views = torch.stack([model.network.backbone(each) for each in (images, close_up(images))], dim=1)
        expected = model.network.heads["one_hot"](model.network.transform(views))
        torch.testing.assert_close(model.network(images).logits, expected)
        for engine in ("torch", "onnx"):
            found = with_engine(model, engine=engine).network(images)  # type: ignore[arg-type]
            torch.testing.assert_close(found.logits, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.usefixtures("probe_never_kept")
def test_without_test_images_the_labels_are_cross_validated(make_config: Make, tmp_path: Path) -> None:
    result = train(without_test_images(make_config(), tmp_path), tmp_path / "run")
    assert result.accuracy is not None
    assert (result.accuracy.kind, result.accuracy.total, result.test_accuracy) == ("cross_validation", 16, None)
    assert result.untested_classes == []
    assert result.probe is not None
    assert result.probe.accuracy is not None
    assert (result.probe.accuracy.kind, result.probe.accuracy.total) == ("cross_validation", 16)
    assert_page_shows_held_out_labels(tmp_path / "run", result)


def assert_page_shows_held_out_labels(path: Path, result: RunResult) -> None:
    """Confusions and samples are of the labelled images, and give the accuracy of the run; those of the pool have no
    true class."""
    run, accuracy = read_run(path), result.accuracy
    assert accuracy is not None
    assert run.evaluation["kind"] == "cross_validation"
    assert "test_accuracy" not in run.evaluation
    confusion = confusion_from_json(run.evaluation["confusion"], 4)
    assert confusion is not None
    assert (int(confusion.correct.sum()), int(confusion.images.sum())) == (accuracy.right, accuracy.total)
    samples = run.evaluation["samples"]
    wrong = [each for each in samples if each["kind"] == "mistake"]
    assert len(wrong) == accuracy.total - accuracy.right
    assert all(each["truth"] != each["label"] for each in wrong)
    assert [each["confidence"] for each in wrong] == sorted((each["confidence"] for each in wrong), reverse=True)
    pool = [each for each in samples if each["kind"] in ("sure", "unsure")]
    assert {each["truth"] for each in pool} == {-1}
    surest, least = ([each["confidence"] for each in pool if each["kind"] == kind] for kind in ("sure", "unsure"))
    assert max(surest) >= max(least)
    assert len(least) == 6


def test_predictions_for_held_out_labels_come_from_heads_without_them(make_config: Make, tmp_path: Path) -> None:
    """The heads of the folds are fitted again here; the final head would be surer of its own labels."""
    config = without_test_images(make_config(method={"name": "linear_probe"}), tmp_path)
    result = train(config, tmp_path / "run")
    assert_page_shows_held_out_labels(tmp_path / "run", result)
    run, model = RunFolder(tmp_path / "run"), load_model(tmp_path / "run" / "model")
    labelled = np.asarray(run.read_json(run.split_file)["labelled"])
    dataset, description = load_data(config.data), model.description
    class_ids = dataset.train_labels[labelled].numpy()
    batches = image_batches(dataset.train_images[labelled], description.mean, description.std)
    features = torch.cat([model.network.backbone.eval()(each) for each in batches]).detach()
    truth, strength = torch.from_numpy(class_ids), fit_probe(features, torch.from_numpy(class_ids), 4).strength
    predicted = np.full(16, -1)
    for fold in fold_positions(class_ids, run.config().evaluation.folds, run.config().training.seed):
        kept = np.setdiff1d(np.arange(16), fold)
        head = fit_probe(features[kept], truth[kept], 4, strength).head
        predicted[fold] = head.logits(features[fold]).argmax(dim=1)
    expected = confusion_of(predicted, class_ids, 4).to_json()
    assert read_run(tmp_path / "run").evaluation["confusion"] == expected


def test_a_class_with_one_label_does_not_take_the_estimate_from_the_others(make_config: Make, tmp_path: Path) -> None:
    config = without_test_images(make_config(), tmp_path)
    with np.load(config.data.source) as images:
        arrays = dict(images)
    positions = [np.flatnonzero(arrays["y_train"] == c)[: 1 if c == 0 else 3] for c in range(4)]
    (tmp_path / "chosen.txt").write_text("".join(f"{i}\n" for i in np.concatenate(positions)))
    data = {"labelled_from": str(tmp_path / "chosen.txt"), "labels_per_class": None}
    config = configure(options=merge(config.model_dump(mode="json"), {"data": data}))
    result = train(config, tmp_path / "run")
    assert result.num_labels == 10
    assert result.accuracy is not None
    assert result.accuracy.total == 9
    run = read_run(tmp_path / "run")
    first = run.class_names[0]
    assert result.untested_classes == [first]
    assert f"{first} has one label and could not be tested. The data set has no test images." in _held_out_verdict(run)
    rows = {row.name: row for row in class_rows(run)}
    assert (rows[first].images, rows[first].most_common_mistake) == (0, UNTESTED)
    assert UNTESTED not in {row.most_common_mistake for row in rows.values() if row.name != first}


def test_the_probe_is_kept_if_it_is_better(make_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(_: SemanticProbe, x: torch.Tensor, *_labels_and_pool: torch.Tensor) -> LinearHead:
        return LinearHead(torch.zeros(4, x.shape[1]), torch.zeros(4))

    monkeypatch.setattr(SemanticProbe, "fit", forget)
    recorder = Recorder()
    result = train(make_config(), tmp_path / "run", recorder)
    assert result.probe is not None
    assert result.probe.is_kept
    assert result.accuracy == result.probe.accuracy
    untested = train(without_test_images(make_config(), tmp_path), tmp_path / "untested")
    assert untested.probe is not None
    assert untested.probe.is_kept
    assert_page_shows_held_out_labels(tmp_path / "untested", untested)
    assert any("is kept" in message for message in recorder.messages)
    assert load_model(tmp_path / "run" / "model").description.transform is None
    train(make_config(method={"name": "linear_probe"}), tmp_path / "probe")
    kept, alone = weights_of(tmp_path / "run"), weights_of(tmp_path / "probe")
    assert kept.keys() == alone.keys()
    assert all(torch.equal(kept[name], alone[name]) for name in kept)


@pytest.mark.usefixtures("probe_never_kept")
def test_a_stopped_run_is_resumed_and_the_views_are_computed_once(
    make_config: Make, tmp_path: Path, cache: Path
) -> None:
    train(make_config(), tmp_path / "whole")
    shutil.rmtree(cache)
    with pytest.raises(RuntimeError, match="crash"):
        train(make_config(), tmp_path / "broken", Recorder(last_chunk=10))  # in the close-up
    resume(tmp_path / "broken")
    assert_same_run(tmp_path / "whole", tmp_path / "broken")
    again = Recorder()
    train(make_config(training={"seed": 1}), tmp_path / "other", again)
    assert again.loaded == {}


def test_a_run_is_continued_with_more_labels(make_config: Make, tmp_path: Path) -> None:
    train(make_config(), tmp_path / "first")
    with np.load(make_config().data.source) as images:
        classes, names = images["y_train"], images["class_names"]
    labelled = json.loads((tmp_path / "first" / "split.json").read_text())["labelled"]
    new = [i for i in range(len(classes)) if i not in labelled][:8]
    table = tmp_path / "more.csv"
    table.write_text("index,label\n" + "".join(f"{i},{names[classes[i]]}\n" for i in new))
    result = continue_run(tmp_path / "first", table, tmp_path / "second")
    assert result.method == "semantic_probe"
    assert result.num_labels == 16 + 8


@pytest.mark.usefixtures("probe_never_kept")
def test_a_fitted_model_knows_photos_of_no_class(make_config: Make, tmp_path: Path) -> None:
    """The thresholds are those of the features of the saved network, computed here in another way."""
    config = make_config()
    train(config, tmp_path / "run")
    model, labelled = load_model(tmp_path / "run" / "model"), json.loads((tmp_path / "run" / "split.json").read_text())
    about, index = model.description, np.asarray(labelled["labelled"])
    with np.load(config.data.source) as arrays:
        images, labels = torch.from_numpy(arrays["x_train"][index]), arrays["y_train"][index]
    images = images.reshape(len(images), about.channels, *about.image_size).float() / 255
    images = (images - torch.tensor(about.mean)[:, None, None]) / torch.tensor(about.std)[:, None, None]
    with torch.no_grad():
        rows = torch.nn.functional.normalize(model.network.backbone(images), dim=1).numpy()
    values = []
    for i, row in enumerate(rows):
        kept = np.arange(len(rows)) != i
        means = [rows[kept & (labels == label)].mean(axis=0) for label in range(4)]
        values.append(max(row @ mean / np.linalg.norm(mean) for mean in means))
    (threshold,) = about.thresholds  # 16 labels are too few for others
    assert threshold.share == 0.1
    assert threshold.least == pytest.approx(min(values), abs=1e-5)
    path = tmp_path / "run"
    found, plain = (load(path, engine="torch", none_of_these=share).engine.about for share in (0.1, None))
    assert found.thresholds == plain.thresholds == about.thresholds


@pytest.mark.usefixtures("probe_never_kept")
def test_the_exported_model_says_none_of_these_too(make_config: Make, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from semco.export.run import export_run

    train(make_config(), tmp_path / "run")
    done = export_run(tmp_path / "run")
    photos = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    predictors = [load(path, engine=name) for path, name in ((tmp_path / "run", "torch"), (done.file, "onnx"))]
    torch_answers, onnx_answers = (each.predict(photos) for each in predictors)
    assert predictors[0].about.thresholds == predictors[1].about.thresholds
    assert torch_answers[0].familiarity is not None
    np.testing.assert_allclose(
        [each.familiarity for each in onnx_answers], [each.familiarity for each in torch_answers], atol=1e-5
    )
    assert "a threshold below" in done.card.read_text()


def test_a_class_of_other_photos_needs_no_threshold(make_config: Make, tmp_path: Path) -> None:
    config = make_config()
    with np.load(config.data.source) as arrays:
        names = np.array(["dark", "middle", "bright", "other"])
        np.savez(tmp_path / "with_other.npz", **(dict(arrays) | {"class_names": names}))
    values = merge(config.model_dump(mode="json"), {"data": {"source": str(tmp_path / "with_other.npz")}})
    values["labels"] = LabelsConfig().model_dump(mode="json")
    train(configure(options=values), tmp_path / "run")
    description = load_model(tmp_path / "run" / "model").description
    assert description.thresholds == ()
    assert description.groups[3] not in description.groups[:3]
