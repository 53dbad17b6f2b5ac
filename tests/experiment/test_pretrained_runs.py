"""Runs from loaded weights: what is frozen, what is cached, the linear probe, and resuming."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sklearn.linear_model import LogisticRegression

from semco.config import Config, ModelConfig, configure, merge
from semco.data.sources import load
from semco.errors import UserError
from semco.evaluation.metrics import confusion_from_json
from semco.evaluation.model_file import load_model
from semco.evaluation.results import image_batches
from semco.experiment import resume, train
from semco.experiment.cross_validation import Measured
from semco.experiment.initial import fit_embedding, with_embedding_length
from semco.methods.linear_probe import fit_probe
from semco.models import build_backbone
from semco.report.runs import read_run
from semco.run.folder import RunFolder
from semco.training.loop import Trainer
from semco.training.observer import NullObserver
from semco.training.signals import Interrupted
from tests.experiment.same_runs import assert_same_run, weights_of

pytestmark = pytest.mark.usefixtures("no_page", "each_probe_is_fitted_once")
MODES = ["all", "top", "heads"]
TRAINING, TEST = "features.f16", "features.f32"  # files with outputs of frozen layers
NO_VALIDATION = {"validation": "none"}
# The tensors of the tiny backbone below its top layers.
BELOW_TOP = ("stem.", "norm.")


class Recorder(NullObserver):
    """Records messages, and raises after ``last_step`` steps or ``last_chunk`` chunks of cached images.

    Steps of the cross-validation count as well.
    """

    def __init__(self, last_step: int | None = None, last_chunk: int | None = None) -> None:
        self.last_step, self.last_chunk = last_step, last_chunk
        self.messages: list[str] = []
        self.chunks = self.steps = 0
        self.loaded: dict[str, tuple[int, int]] = {}  # the last progress of each kind of long work

    def on_message(self, text: str) -> None:
        self.messages.append(text)

    def on_loading(self, what: str, done: int, total: int) -> None:
        self.loaded[what] = done, total
        if what in ("frozen layers", "looking at the photos"):
            self.chunks += 1
            if self.chunks == self.last_chunk:
                raise RuntimeError("crash")

    def on_step(self, step: int) -> None:  # noqa: ARG002
        self.steps += 1
        if self.steps == self.last_step:
            raise RuntimeError("crash")

    @property
    def has_computed(self) -> bool:
        return any("frozen layers once" in message for message in self.messages)


def without_test_images(config: Config, tmp_path: Path) -> Config:
    """Return the configuration for a copy of the data without the test images."""
    with np.load(config.data.source) as images:
        np.savez(tmp_path / "untested.npz", **{name: images[name] for name in images if not name.endswith("_test")})
    return configure(
        options=merge(config.model_dump(mode="json"), {"data": {"source": str(tmp_path / "untested.npz")}})
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache of feature files, empty."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr("semco.experiment.inputs.cache_folder", lambda _: folder)
    return folder


@pytest.fixture
def probe_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trained network is the model of every run, also where the probe is better."""
    monkeypatch.setattr(Measured, "is_probe_better", lambda _: False)
    monkeypatch.setattr("semco.experiment.judge._has_collapsed", lambda *_: False)


def write_weights(path: Path, seed: int, name: str = "tiny") -> Path:
    """Weights of a backbone for grey images whose statistics are those of an earlier training."""
    torch.manual_seed(seed)
    backbone = build_backbone(ModelConfig(backbone=name), 1, 8).train()
    for _ in range(3):
        backbone(torch.randn(16, 1, 8, 8))
    save_file(backbone.state_dict(), path)
    return path


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_weights(tmp_path / "weights.safetensors", seed=5)


Make = Callable[..., Config]


@pytest.fixture
def make_config(tiny_values: dict[str, Any], weights: Path) -> Make:
    """Configurations of runs of six steps from these weights, with images held out for validation."""

    def make(tune: str = "top", method: str = "semco_plus", **over: Any) -> Config:
        own = {
            "data": {"validation": "train", "validation_size": 40},
            "model": {"weights": str(weights), "tune": tune, "cached_views": 2},
            "method": {"name": method},
            "training": {"steps": 6, "checkpoint_every": 2, "log_every": 1},
        }
        return configure(options=merge(merge(tiny_values, own), over))

    return make


def damage(cache: Path) -> None:
    """Overwrite the feature files, which are then computed again."""
    for file in cache.glob("*/features.*"):
        file.write_bytes(bytes(file.stat().st_size))


@pytest.mark.parametrize(("tune", "engine"), [("all", "auto"), ("top", "onnx"), ("heads", "openvino")])
def test_a_crashed_run_resumes_as_if_nothing_had_happened(
    make_config: Make, tmp_path: Path, cache: Path, tune: str, engine: str
) -> None:
    """It crashes before its first checkpoint, and again after its second."""
    wide_resnet = write_weights(tmp_path / "wide_resnet.safetensors", seed=5, name="wrn-10-1")
    model = {"backbone": "wrn-10-1", "weights": str(wide_resnet)}
    config = make_config(tune, model=model, training={"frozen_engine": engine})
    train(config, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="crash"):
        train(config, tmp_path / "broken", Recorder(last_step=1))
    damage(cache)
    with pytest.raises(RuntimeError, match="crash"):
        resume(tmp_path / "broken", Recorder(last_step=5))
    assert len(list((tmp_path / "broken").glob("checkpoints/step-*"))) == 2
    damage(cache)
    resume(tmp_path / "broken")
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize("method", ["label_propagation", "mixmatch", "temporal_ensembling"])
def test_methods_with_a_memory_or_images_of_their_own_resume_too(
    make_config: Make, tmp_path: Path, method: str
) -> None:
    config = make_config("top", method)
    train(config, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="crash"):
        train(config, tmp_path / "broken", Recorder(last_step=3))
    resume(tmp_path / "broken")
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_a_run_stopped_while_features_are_computed_is_resumed(make_config: Make, tmp_path: Path, cache: Path) -> None:
    train(make_config(), tmp_path / "whole")
    for file in cache.glob("*/*"):
        file.unlink()
    with pytest.raises(RuntimeError, match="crash"):
        train(make_config(), tmp_path / "broken", Recorder(last_chunk=2))
    resume(tmp_path / "broken")
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_runs_with_the_same_frozen_layers_share_the_file(make_config: Make, tmp_path: Path, cache: Path) -> None:
    first, second, other = Recorder(), Recorder(), Recorder()
    train(make_config("top"), tmp_path / "first", first)
    train(make_config("top", "fixmatch", training={"seed": 1}), tmp_path / "second", second)
    train(make_config("heads"), tmp_path / "other", other)
    assert (first.has_computed, second.has_computed, other.has_computed) == (True, False, True)
    assert first.loaded["frozen layers"] == (160, 160)
    assert first.loaded["frozen layers, test images"] == (80, 80)
    assert second.loaded.keys() == set()
    # 160 images, 5 views, outputs of the first two layers and features, in half precision.
    assert sizes(cache, TRAINING) == [160 * 5 * 64 * 2, 160 * 5 * 16 * 4 * 4 * 2]
    assert sizes(cache, TEST) == [80 * 64 * 4, 80 * 16 * 4 * 4 * 4]


def sizes(cache: Path, name: str) -> list[int]:
    return sorted(file.stat().st_size for file in cache.glob(f"*/{name}"))


def test_test_images_are_not_stored_where_they_would_push_out_training_images(
    make_config: Make, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(make_config("heads"), tmp_path / "stored")
    training, test = *sizes(cache, TRAINING), *sizes(cache, TEST)
    monkeypatch.setattr("semco.experiment.inputs.MOST_CACHED", training + test - 1)
    shutil.rmtree(cache)
    recorder = Recorder()
    train(make_config("heads"), tmp_path / "computed", recorder)
    assert (sizes(cache, TRAINING), sizes(cache, TEST)) == ([training], [])
    assert recorder.loaded["frozen layers, test images"] == (80, 80)
    assert_same_run(tmp_path / "stored", tmp_path / "computed")


def test_other_test_images_are_another_file(make_config: Make, tmp_path: Path, cache: Path) -> None:
    train(make_config(), tmp_path / "first")
    values = make_config().model_dump(mode="json")
    with np.load(values["data"]["source"]) as images:
        other = dict(images) | {"x_test": images["x_test"][::-1], "y_test": images["y_test"][::-1]}
    np.savez(tmp_path / "other.npz", **other)
    second = Recorder()
    train(make_config(data={"source": str(tmp_path / "other.npz")}), tmp_path / "second", second)
    assert second.loaded.keys() == {"frozen layers, test images"}
    assert (len(sizes(cache, TRAINING)), len(sizes(cache, TEST))) == (1, 2)
    accuracies = [RunFolder(tmp_path / run).result().test_accuracy for run in ("first", "second")]
    assert accuracies[0] == accuracies[1]  # the same images in another order


@pytest.mark.parametrize(
    "over",
    [
        {"augment": {"cutout": 0.5}},
        {"model": {"cached_views": 3}},
        {"data": {"image_size": 16}},
        {"training": {"precision": "bfloat16", "steps": 1}},
        {"training": {"frozen_engine": "onnx"}},
    ],
)
def test_other_views_are_another_file(make_config: Make, tmp_path: Path, over: dict[str, Any]) -> None:
    train(make_config(), tmp_path / "first")
    second = Recorder()
    train(make_config(**over), tmp_path / "second", second)
    assert second.has_computed


def test_nothing_is_cached_if_nothing_is_frozen_or_the_method_changes_images(
    make_config: Make, tmp_path: Path, cache: Path
) -> None:
    train(make_config("all"), tmp_path / "all")
    train(make_config("top", "mixmatch"), tmp_path / "mixmatch")
    assert list(cache.iterdir()) == []


def test_a_linear_probe_caches_the_plain_images_only(make_config: Make, tmp_path: Path, cache: Path) -> None:
    first, second, trained = Recorder(), Recorder(), Recorder()
    train(make_config("heads", "linear_probe"), tmp_path / "probe", first)
    assert first.loaded == {"looking at the photos": (240, 240)}  # one figure for all images
    assert (sizes(cache, TRAINING), sizes(cache, TEST)) == ([], [80 * 64 * 4, 160 * 64 * 4])
    assert not any("steps" in message for message in first.messages)
    train(make_config("heads", "linear_probe", training={"seed": 1}), tmp_path / "other", second)
    assert second.loaded == {}
    train(make_config("heads"), tmp_path / "trained", trained)
    assert trained.loaded == {"frozen layers": (160, 160)}  # its views; the test images are shared


def test_without_a_cache_folder_the_file_lies_in_the_run(
    make_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semco.experiment.inputs.cache_folder", lambda _: None)
    train(make_config(), tmp_path / "run")
    assert all(len(sizes(tmp_path / "run" / "features", name)) == 1 for name in (TRAINING, TEST))


def test_changed_weights_are_noticed(make_config: Make, tmp_path: Path, weights: Path) -> None:
    with pytest.raises(RuntimeError, match="crash"):
        train(make_config(), tmp_path / "run", Recorder(last_step=3))
    write_weights(weights, seed=6)
    with pytest.raises(UserError, match=r"other inputs than it has now \(initial weights\)"):
        resume(tmp_path / "run")
    write_weights(weights, seed=5)
    assert resume(tmp_path / "run").steps == 6


@pytest.mark.usefixtures("probe_never_kept")
@pytest.mark.parametrize("method", ["semco_plus", "mixmatch"])
@pytest.mark.parametrize("tune", MODES)
def test_frozen_layers_are_those_of_the_file(
    make_config: Make, tmp_path: Path, weights: Path, tune: str, method: str
) -> None:
    """Also where the whole network runs, because the method changes the images. Statistics are frozen everywhere."""
    train(make_config(tune, method), tmp_path / "run")
    trained, loaded = weights_of(tmp_path / "run"), load_file(weights)
    frozen = {"all": (), "top": BELOW_TOP, "heads": ("",)}[tune]
    for name, tensor in loaded.items():
        is_statistic = name.rsplit(".", 1)[-1] in ("running_mean", "running_var", "num_batches_tracked")
        stays = is_statistic or name.startswith(frozen)
        assert torch.equal(trained[f"backbone.{name}"], tensor) == stays, name


@pytest.mark.usefixtures("probe_never_kept")
def test_statistics_of_trained_layers_follow_if_asked(make_config: Make, tmp_path: Path, weights: Path) -> None:
    train(make_config("top", model={"freeze_norm": False}), tmp_path / "run")
    trained, loaded = weights_of(tmp_path / "run"), load_file(weights)
    for name in (name for name in loaded if name.endswith("running_mean")):
        assert torch.equal(trained[f"backbone.{name}"], loaded[name]) == name.startswith(BELOW_TOP), name


def features_of(run: Path, config: Config, part: str) -> tuple[torch.Tensor, np.ndarray]:
    """Features and classes of the labelled or the test images, from the saved model."""
    data, model = load(config.data), load_model(run / "model")
    about = model.description
    if part == "test":
        assert data.test_images is not None
        assert data.test_labels is not None
        images, labels = data.test_images, data.test_labels
    else:
        chosen = json.loads((run / "split.json").read_text())["labelled"]
        images, labels = data.train_images[chosen], data.train_labels[chosen]
    with torch.no_grad():
        features = [model.network(batch).features for batch in image_batches(images, about.mean, about.std)]
    return torch.cat(features), labels.numpy()


@pytest.mark.usefixtures("page")
def test_a_linear_probe_is_logistic_regression(make_config: Make, tmp_path: Path, weights: Path) -> None:
    config = make_config("heads", "linear_probe")
    result = train(config, tmp_path / "run")
    x, y = features_of(tmp_path / "run", config, "labelled")
    new, truth = features_of(tmp_path / "run", config, "test")
    strength = fit_probe(x, torch.from_numpy(y), 4).strength
    model = LogisticRegression(C=strength, max_iter=10_000, tol=1e-8).fit(x.double().numpy(), y)
    assert result.test_accuracy == pytest.approx(model.score(new.double().numpy(), truth), abs=1 / 80)
    head = weights_of(tmp_path / "run")["heads.one_hot.weight"].numpy()
    np.testing.assert_allclose(head, model.coef_, atol=1e-3)
    assert (result.steps, result.method, result.num_labels) == (0, "linear_probe", 16)
    assert result.accuracy is not None
    assert (result.accuracy.kind, result.accuracy.value, result.accuracy.total) == ("test", result.test_accuracy, 80)
    assert result.probe is None  # it is the probe
    trained, loaded = weights_of(tmp_path / "run"), load_file(weights)
    assert all(torch.equal(trained[f"backbone.{name}"], tensor) for name, tensor in loaded.items())
    assert "linear" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8").lower()
    assert resume(tmp_path / "run") == result


def test_a_linear_probe_needs_no_loaded_weights(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    result = train(configure(options=merge(tiny_values, {"method": {"name": "linear_probe"}})), tmp_path / "run")
    assert result.accuracy is not None
    assert (result.steps, result.accuracy.value) == (0, result.test_accuracy)


@pytest.mark.usefixtures("page")
def test_the_result_holds_the_probe(make_config: Make, tmp_path: Path) -> None:
    """The same probe whatever is trained."""
    results = [train(make_config(tune), tmp_path / tune) for tune in MODES]
    alone = train(make_config("all", "linear_probe"), tmp_path / "probe")
    for result in results:
        assert result.probe is not None
        assert result.probe.accuracy is not None
        assert result.probe.difference is not None
        assert result.accuracy is not None
        assert (result.probe.accuracy.kind, result.probe.accuracy.total) == ("test", 80)
        assert result.probe.accuracy.value == pytest.approx(alone.test_accuracy, abs=0.03)  # float16
        assert result.probe.difference.value == pytest.approx(result.accuracy.value - result.probe.accuracy.value)
        saved = json.loads((Path(result.run) / "result.json").read_text())["probe"]
        assert saved == result.probe.model_dump(mode="json")
        assert result.validation_images == 16  # a tenth of the training images is held out


def test_runs_from_scratch_have_no_probe(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    assert train(configure(options=merge(tiny_values, {"training": {"steps": 1}})), tmp_path / "run").probe is None


def stay(trainer: Trainer) -> None:
    """Take no steps."""


def forget(trainer: Trainer) -> None:
    """Make the trained network wrong on every image that the probe gets right."""
    with torch.no_grad():
        for parameter in trainer.average.get_submodule("heads").parameters():
            parameter.neg_()


@pytest.mark.parametrize("tune", MODES)
def test_the_probe_is_kept_if_it_is_better_on_validation(
    make_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tune: str
) -> None:
    monkeypatch.setattr(Trainer, "run", forget)
    observer = Recorder()
    result = train(make_config(tune, evaluation={"head": "average"}), tmp_path / "run", observer)
    assert result.probe is not None
    assert result.probe.is_kept
    assert result.head == load_model(tmp_path / "run" / "model").description.head == "one_hot"
    assert result.accuracy == result.probe.accuracy
    assert result.validation_accuracy is not None
    assert any("the probe is kept" in message for message in observer.messages)
    train(make_config(tune, "linear_probe"), tmp_path / "probe")
    kept, alone = weights_of(tmp_path / "run"), weights_of(tmp_path / "probe")
    torch.testing.assert_close(kept["heads.one_hot.weight"], alone["heads.one_hot.weight"], atol=1e-2, rtol=1e-2)


def test_the_trained_network_is_kept_if_it_is_as_good(
    make_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "run", stay)
    result = train(make_config(evaluation={"head": "one_hot"}), tmp_path / "run")
    assert result.probe is not None
    assert result.accuracy == result.probe.accuracy
    assert not result.probe.is_kept


@pytest.mark.parametrize(("run", "is_kept"), [(forget, True), (stay, False)])
def test_a_run_of_all_layers_is_not_repeated_and_the_probe_is_kept_if_training_has_failed(
    make_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[Trainer], None], is_kept: bool
) -> None:
    monkeypatch.setattr(Trainer, "run", run)
    observer = Recorder()
    result = train(make_config("all", data=NO_VALIDATION), tmp_path / "run", observer)
    assert result.probe is not None
    assert result.probe.is_kept == is_kept
    assert (result.accuracy == result.probe.accuracy) or not is_kept
    assert any("not compared with the linear probe" in message for message in observer.messages)
    assert any("training has failed, and the probe is kept" in message for message in observer.messages) == is_kept


@pytest.mark.parametrize(("tune", "folds"), [("heads", 3), ("top", 2)])
def test_without_validation_images_cross_validation_decides(
    make_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tune: str, folds: int
) -> None:
    monkeypatch.setattr(Trainer, "run", forget)
    observer, measured = Recorder(), []
    judged = Measured.is_probe_better
    monkeypatch.setattr(Measured, "is_probe_better", lambda each: measured.append(each) or judged(each))
    result = train(make_config(tune, data=NO_VALIDATION), tmp_path / "run", observer)
    assert result.probe is not None
    assert (result.probe.is_kept, result.validation_accuracy) == (True, None)
    assert (measured[0].kind, len(measured[0].model)) == ("cross_validation", 16)  # each labelled image once
    assert measured[0].model.sum() < measured[0].probe.sum()
    assert sum("held-out labels, part" in message for message in observer.messages) == folds
    assert not (tmp_path / "run" / "folds").exists()


def test_without_test_images_the_page_of_a_trained_network_shows_its_cross_validation(
    make_config: Make, tmp_path: Path
) -> None:
    result = train(without_test_images(make_config("heads", data=NO_VALIDATION), tmp_path), tmp_path / "run")
    assert result.accuracy is not None
    shown = read_run(tmp_path / "run").evaluation
    confusion = confusion_from_json(shown["confusion"], 4)
    assert confusion is not None
    assert (shown["kind"], result.accuracy.total) == ("cross_validation", 16)
    assert (confusion.correct.sum(), confusion.images.sum()) == (result.accuracy.right, 16)


def test_a_run_stopped_in_its_cross_validation_is_resumed(make_config: Make, tmp_path: Path) -> None:
    """After the six steps of the run and two of its first fold, and after four more of that and five of its second."""
    config = make_config("heads", data=NO_VALIDATION)
    train(config, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="crash"):
        train(config, tmp_path / "broken", Recorder(last_step=8))
    assert [path.name for path in (tmp_path / "broken" / "folds").iterdir()] == ["1"]
    with pytest.raises(RuntimeError, match="crash"):
        resume(tmp_path / "broken", Recorder(last_step=9))
    assert sorted(path.name for path in (tmp_path / "broken" / "folds").iterdir()) == ["1", "2"]
    resume(tmp_path / "broken")
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_a_signal_in_the_cross_validation_names_the_run_that_can_be_resumed(make_config: Make, tmp_path: Path) -> None:
    class Interrupting(Recorder):
        lines = 0

        def on_step(self, step: int) -> None:
            super().on_step(step)
            if self.steps == 8:  # the second step of the first fold
                signal.raise_signal(signal.SIGINT)

        def on_line(self, line: Mapping[str, float | None]) -> None:
            self.lines += "loss" in line

    observer = Interrupting()
    with pytest.raises(Interrupted, match="stopped by SIGINT after step 6") as stopped:
        train(make_config("heads", data=NO_VALIDATION), tmp_path / "run", observer)
    assert stopped.value.run == tmp_path / "run"
    assert observer.lines == 6  # not those of the fold
    assert resume(stopped.value.run).steps == 6


@pytest.mark.parametrize(("tune", "threads"), [("heads", 1), ("all", 2)])
def test_heads_on_frozen_features_are_trained_with_one_thread(
    make_config: Make, tmp_path: Path, tune: str, threads: int
) -> None:
    class Threads(Recorder):
        seen = 0

        def on_step(self, step: int) -> None:
            super().on_step(step)
            self.seen = torch.get_num_threads()

    torch.set_num_threads(2)
    observer = Threads()
    try:
        train(make_config(tune, training={"steps": 1}), tmp_path / "run", observer)
        assert (observer.seen, torch.get_num_threads()) == (threads, 2)
    finally:
        torch.set_num_threads(1)  # as in all tests


@pytest.mark.usefixtures("probe_never_kept")
@pytest.mark.parametrize("tune", MODES)
def test_heads_start_from_the_probe_or_from_the_seed(
    make_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_vectors: Path, tune: str
) -> None:
    monkeypatch.setattr(Trainer, "run", stay)
    for init in ("auto", "probe", "random"):
        train(make_config(tune, "semco", model={"heads_init": init}), tmp_path / init)
    auto, probe, drawn = (weights_of(tmp_path / init) for init in ("auto", "probe", "random"))
    assert all(torch.equal(auto[name], probe[name]) for name in auto)
    x, y = features_of(tmp_path / "auto", make_config(tune), "labelled")
    vectors = torch.from_numpy(np.load(tiny_vectors))
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    weight, bias = with_embedding_length(*fit_embedding(x, vectors[y]), x)
    torch.testing.assert_close(auto["heads.semantic.weight"], weight, atol=1e-2, rtol=1e-2)  # float16
    torch.testing.assert_close(auto["heads.semantic.bias"], bias, atol=1e-2, rtol=1e-2)
    for head in ("one_hot", "semantic"):
        assert not torch.allclose(auto[f"heads.{head}.weight"], drawn[f"heads.{head}.weight"], atol=1e-2)
        assert torch.equal(drawn[f"heads.{head}.bias"], torch.zeros_like(drawn[f"heads.{head}.bias"]))


@pytest.mark.usefixtures("probe_never_kept")
def test_a_head_of_two_layers_starts_from_the_seed(
    make_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "run", stay)
    for init in ("auto", "random"):
        train(make_config(model={"heads_init": init, "semantic_head": "mlp", "mlp_hidden": 8}), tmp_path / init)
    auto, drawn = weights_of(tmp_path / "auto"), weights_of(tmp_path / "random")
    assert torch.equal(auto["heads.semantic.0.weight"], drawn["heads.semantic.0.weight"])
    assert not torch.equal(auto["heads.one_hot.weight"], drawn["heads.one_hot.weight"])


def test_heads_of_a_network_from_scratch_start_from_the_probe_if_asked(
    tiny_values: dict[str, Any], tmp_path: Path
) -> None:
    own = {"model": {"heads_init": "probe"}, "training": {"steps": 1}}
    assert train(configure(options=merge(tiny_values, own)), tmp_path / "run").probe is not None


@pytest.mark.usefixtures("probe_never_kept")
def test_decay_to_the_start_keeps_the_heads_near_the_probe(
    make_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for decay in (0.0, 5.0):
        train(make_config("heads", "semco", optim={"start_decay": decay}), tmp_path / str(decay))
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "run", stay)
        train(make_config("heads", "semco"), tmp_path / "start")
    start, free, held = (weights_of(tmp_path / name) for name in ("start", "0.0", "5.0"))
    for name in ("heads.one_hot.weight", "heads.semantic.weight"):
        assert 0 < (held[name] - start[name]).norm() < 0.9 * (free[name] - start[name]).norm()


@pytest.mark.parametrize(("method", "head"), [("semco_plus", "average"), ("semco", "one_hot"), ("devise", "semantic")])
@pytest.mark.usefixtures("probe_never_kept")
def test_the_head_that_predicts_follows_from_the_method(
    make_config: Make, tmp_path: Path, method: str, head: str
) -> None:
    result = train(make_config("heads", method, training={"steps": 1}), tmp_path / "run")
    assert result.head == load_model(tmp_path / "run" / "model").description.head == head
