"""Runs from configuration to result."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from semco.config import Config, configure, flat_fields, merge
from semco.errors import UserError
from semco.experiment import resume, train
from semco.experiment.problem import read_problem
from semco.experiment.runs import _device_of as device_of
from semco.methods import Method
from semco.report import write_report
from semco.run.folder import RunFolder
from semco.run.seal import write_with_digest
from semco.training.loop import Trainer
from semco.training.observer import MetricsLine, NullObserver
from semco.training.signals import Interrupted
from tests.experiment.same_runs import StopAt, assert_same_run, lines_of, weights_of
from tests.experiment.trained_once import finished, interrupted, interrupted_early

pytestmark = pytest.mark.usefixtures("no_page")


def config_of(values: dict[str, Any], **over: Any) -> Config:
    return configure(options=merge(values, over))


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("method", ["supervised", "fixmatch", "semco"])
def test_a_run_leaves_everything_it_promises(tiny_values: dict[str, Any], tmp_path: Path, method: str) -> None:
    run = tmp_path / "run"
    result = train(config_of(tiny_values, method={"name": method}), run)
    assert result == RunFolder(run).result()
    assert (result.steps, result.num_labels, result.test_images) == (8, 16, 80)
    assert result.test_accuracy == pytest.approx(1 - result.test_error)
    assert set(result.per_class) == {"dog", "cat", "ship", "truck"}
    request = config_of(tiny_values, method={"name": method})
    assert RunFolder.open(run).request() == request
    config = RunFolder.open(run).config()
    asked, used = (flat_fields(each.model_dump(mode="json")) for each in (request, config))
    assert "auto" not in used.values()
    assert {name for name in asked if asked[name] not in ("auto", used[name])} <= {"data.image_size"}
    assert json.loads((run / "labels.json").read_text())["groups"] == [0, 0, 1, 1]
    assert [line["step"] for line in lines_of(run)] == list(range(1, 9))
    table = pq.read_table(run / "pseudo_labels.parquet")
    assert table.num_rows == 160 - 16 - len(json.loads((run / "split.json").read_text())["validation"])
    assert "dog" in (run / "report.html").read_text(encoding="utf-8")


def test_semco_learns_the_tiny_images(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    longer = {"steps": 60, "checkpoint_every": 50, "validate_every": 30, "log_every": 30}
    result = train(config_of(tiny_values, training=longer), tmp_path / "run")
    assert result.test_accuracy > 0.9


def test_the_seed_decides_everything(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(config_of(tiny_values, training={"seed": seed}), tmp_path / name)
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert lines_of(tmp_path / "a") != lines_of(tmp_path / "c")


def test_a_run_may_crash_again_and_again(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """Before its first checkpoint, before its second one and after it, between two lines of metrics."""
    config = config_of(tiny_values, training={"images_per_epoch": 24, "log_every": 2})
    train(config, tmp_path / "whole")
    run = tmp_path / "broken"
    with pytest.raises(RuntimeError, match="crash"):
        train(config, run, StopAt(2))
    assert not list(run.glob("checkpoints/*"))
    for step, saved in ((5, ["03"]), (7, ["03", "06"])):
        with pytest.raises(RuntimeError, match="crash"):
            resume(run, StopAt(step))
        assert sorted(path.name[-14:-12] for path in run.glob("checkpoints/*")) == saved
    resume(run)
    assert_same_run(tmp_path / "whole", run)


def test_a_finished_run_only_gives_its_result(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    result = finished(tiny_values, tmp_path / "run")
    assert resume(tmp_path / "run") == result


def test_an_existing_run_is_not_overwritten(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    finished(tiny_values, tmp_path / "run")
    before = (tmp_path / "run" / "result.json").read_bytes()
    with pytest.raises(UserError, match="holds a finished run"):
        train(config_of(tiny_values), tmp_path / "run")
    assert (tmp_path / "run" / "result.json").read_bytes() == before


def test_a_folder_with_nothing_but_a_cut_off_file_is_new(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".config.yaml.abc_1234.tmp").write_text("half a fi")
    config = config_of(tiny_values, method={"name": "supervised"}, training={"steps": 1})
    assert train(config, tmp_path / "run").steps == 1


def test_changed_data_is_noticed(tiny_values: dict[str, Any], tmp_path: Path, tiny_npz: Path) -> None:
    import numpy as np

    source = tmp_path / "data.npz"
    with np.load(tiny_npz) as arrays:
        content = dict(arrays)
    np.savez(source, **content)
    with pytest.raises(RuntimeError, match="crash"):
        train(config_of(tiny_values, data={"source": str(source)}), tmp_path / "run", StopAt(6))
    content["y_train"][0] = 1 - content["y_train"][0]
    np.savez(source, **content)
    with pytest.raises(UserError, match="not those this split was made for"):
        resume(tmp_path / "run")


def test_other_images_with_the_same_labels_are_noticed(
    tiny_values: dict[str, Any], tmp_path: Path, tiny_npz: Path
) -> None:
    import numpy as np

    source = tmp_path / "data.npz"
    with np.load(tiny_npz) as arrays:
        content = dict(arrays)
    np.savez(source, **content)
    interrupted(merge(tiny_values, {"data": {"source": str(source)}}), tmp_path / "run")
    np.savez(source, **{**content, "x_train": 255 - content["x_train"]})
    with pytest.raises(UserError, match=r"the training images are not those that .*run was started with"):
        resume(tmp_path / "run")
    np.savez(source, **content)
    assert resume(tmp_path / "run").steps == 8


def test_other_label_vectors_are_noticed(tiny_values: dict[str, Any], tmp_path: Path, tiny_vectors: Path) -> None:
    import numpy as np

    file = tmp_path / "vectors.npy"
    matrix = np.load(tiny_vectors)
    np.save(file, matrix)
    interrupted(merge(tiny_values, {"labels": {"path": str(file)}}), tmp_path / "run")
    for other in (matrix[[1, 0, 2, 3]], np.eye(4, matrix.shape[1])):  # the same groups, and other ones
        np.save(file, other)
        with pytest.raises(UserError, match=r"the label vectors are not those that .*run was started with"):
            resume(tmp_path / "run")
    np.save(file, matrix)
    assert resume(tmp_path / "run").steps == 8


def test_a_head_that_the_method_has_not_is_refused_at_once(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    config = config_of(tiny_values, method={"name": "fixmatch"}, evaluation={"head": "average"})
    with pytest.raises(
        UserError, match=r"evaluation\.head=average needs a semantic head, which fixmatch does not have"
    ):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_two_processes_do_not_train_in_one_folder(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    interrupted(tiny_values, tmp_path / "run")
    with RunFolder(tmp_path / "run").lock(), pytest.raises(UserError, match="is being trained by another process"):
        resume(tmp_path / "run")
    assert resume(tmp_path / "run").steps == 8


def test_a_missing_page_is_made_again(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    result = finished(tiny_values, tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink(missing_ok=True)
    killed_inside = tmp_path / "run" / ".report.html.ab12cd34.tmp"
    killed_inside.write_text("half a page")
    assert resume(tmp_path / "run") == result
    assert "SemCo+ on tiny.npz" in (tmp_path / "run" / "report.html").read_text()
    assert not killed_inside.exists()


def poison_after_step(monkeypatch: pytest.MonkeyPatch, step: int, weights: str, value: float) -> None:
    """Set weights to a value after the losses of a step were looked at."""
    original = Trainer._train

    def poisoned(self: Trainer, *batch: Any) -> None:
        original(self, *batch)
        if self.state.step == step:
            with torch.no_grad():
                next(getattr(self, weights).parameters()).fill_(value)

    monkeypatch.setattr(Trainer, "_train", poisoned)


def test_weights_that_are_not_finite_are_never_saved(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison_after_step(monkeypatch, 6, "network", float("inf"))
    config = config_of(tiny_values, training={"checkpoint_every": 3})
    with pytest.raises(UserError, match=r"weights became non-finite at step 6; .*step-000000003"):
        train(config, tmp_path / "run")
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == ["step-000000003.safetensors"]


def test_a_run_that_diverges_before_a_validation_says_so(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison_after_step(monkeypatch, 4, "average", float("nan"))
    with pytest.raises(UserError, match=r"predictions became non-finite at step 4; .*step-000000003.*lower optim\.lr"):
        train(config_of(tiny_values), tmp_path / "run")


def test_a_line_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.metrics_file.symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"cannot write .*metrics\.jsonl: it is a link, not a regular file; remove it"):
        run.append_metrics({"step": 1})


def test_data_that_was_moved_may_be_named_anew(tiny_values: dict[str, Any], tiny_npz: Path, tmp_path: Path) -> None:
    data, run = tmp_path / "data.npz", tmp_path / "run"
    shutil.copy(tiny_npz, data)
    interrupted(merge(tiny_values, {"data": {"source": str(data)}}), run)
    moved = data.rename(tmp_path / "moved.npz")
    with pytest.raises(
        UserError, match=r"run was started with '.*data.npz', which does not exist: put it back, or write"
    ):
        resume(run)
    file = RunFolder(run).config_file
    file.write_text(file.read_text().replace(str(data), str(moved)))
    assert resume(run).steps == tiny_values["training"]["steps"]


def test_a_signal_saves_the_run(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    class Signalled(NullObserver):
        def on_step(self, step: int) -> None:
            if step == 5:
                os.kill(os.getpid(), signal.SIGTERM)

    finished(tiny_values, tmp_path / "whole")
    with pytest.raises(Interrupted) as stopped:
        train(config_of(tiny_values), tmp_path / "run", Signalled())
    assert stopped.value.exit_code == 143
    assert stopped.value.step == 5
    assert (tmp_path / "run" / "checkpoints" / "step-000000005.safetensors").exists()
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_signal_is_answered_at_once_although_the_step_takes_long(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, answered = Trainer._train, threading.Event()

    class Messages(NullObserver):
        def on_message(self, text: str) -> None:
            if text.startswith("SIGINT: the run stops after this step and saves; press Ctrl-C again"):
                answered.set()

    def slow(self: Trainer, *batch: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert answered.wait(120)
        original(self, *batch)

    monkeypatch.setattr(Trainer, "_train", slow)
    with pytest.raises(Interrupted):
        train(config_of(tiny_values), tmp_path / "run", Messages())
    assert not [thread for thread in threading.enumerate() if thread.name == "announce-stop"]


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Trainer._train

    def poisoned(self: Trainer, *batch: Any) -> None:
        if self.state.step == 5:
            with torch.no_grad():
                next(self.network.parameters()).fill_(float("nan"))
        original(self, *batch)

    monkeypatch.setattr(Trainer, "_train", poisoned)
    with pytest.raises(
        UserError,
        match=r"loss supervised_semantic, .*cotraining_one_hot, .* became non-finite at step 5.*step-000000003",
    ):
        train(config_of(tiny_values), tmp_path / "run")
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == ["step-000000003.safetensors"]


def test_names_without_vectors_stop_semco_but_not_fixmatch(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    values = merge(tiny_values, {"labels": {"source": "matrix", "path": str(tmp_path / "nothing.npy")}})
    with pytest.raises(UserError, match=r"nothing\.npy"):
        train(config_of(values), tmp_path / "semco")
    assert not (tmp_path / "semco").exists()
    assert train(config_of(values, method={"name": "fixmatch"}), tmp_path / "fixmatch").steps == 8


def test_target_views_can_run_jointly(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    joint = config_of(tiny_values, training={"target_views": "joint"})
    train(joint, tmp_path / "joint")
    finished(tiny_values, tmp_path / "apart")
    assert lines_of(tmp_path / "joint") != lines_of(tmp_path / "apart")


def test_plain_values_are_no_configuration(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train takes a semco.Config, not dict; Config.parse makes one"):
        train(tiny_values, tmp_path / "run")  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_maps_made_again_change_nothing(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    for choice in ("on", "off"):
        train(config_of(tiny_values, training={"recompute": choice}), tmp_path / choice)
    assert lines_of(tmp_path / "on") == lines_of(tmp_path / "off")


def test_memory_is_kept_from_the_first_step_on(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    @contextmanager
    def kept(device: torch.device, wanted: bool) -> Iterator[Callable[[], None]]:
        assert wanted
        yield lambda: happened.append(f"kept on {device}")

    monkeypatch.setattr("semco.training.loop.reuse_freed_memory", kept)

    class Steps(NullObserver):
        def on_line(self, line: MetricsLine) -> None:
            happened.append(f"step {line['step']}")

    train(config_of(tiny_values, training={"steps": 3}), tmp_path / "run", Steps())
    assert happened == ["kept on cpu", "step 1", "step 2", "step 3"]


def test_ablations_are_fields(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    train(config_of(tiny_values, labels={"eps": 0.0}), tmp_path / "alone")
    assert json.loads((tmp_path / "alone" / "labels.json").read_text())["groups"] == [0, 1, 2, 3]
    train(config_of(tiny_values, labels={"targets": "one_hot"}), tmp_path / "one-hot")
    prior = json.loads((tmp_path / "one-hot" / "labels.json").read_text())
    assert prior["groups"] == [0, 0, 1, 1]
    assert weights_of(tmp_path / "one-hot")["heads.semantic.weight"].shape[0] == 4


@pytest.mark.parametrize(("steps", "expected"), [(12, list(range(12))), (91, list(range(0, 91, 9)))])
def test_the_pool_is_relabelled_once_a_pass_and_ten_times_at_least(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, expected: list[int]
) -> None:
    """144 unlabelled images, 16 a step: a pass takes 9 steps, which in a run of 12 would be too late."""
    seen = []
    method = Method.registry["label_propagation"]
    monkeypatch.setattr(method, "refresh", lambda _, pool, progress: seen.append(progress.step))  # noqa: ARG005
    train(config_of(tiny_values, method={"name": "label_propagation"}, training={"steps": steps}), tmp_path / "run")
    assert seen == expected


def test_labels_propagate_in_a_short_run(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    train(config_of(tiny_values, method={"name": "label_propagation"}), tmp_path / "run")
    certainty = [line["mask_one_hot"] for line in lines_of(tmp_path / "run")]
    assert certainty[:2] == [0.0] * 2  # a quarter of the run is warm-up
    assert min(certainty[2:]) > 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("batch_size: 8", "training.batch_size was 8 and is 4"),
        ("backbone: tiny", "model.backbone was tiny and is wrn-10-2"),
    ],
)
def test_a_run_resumes_only_with_its_configuration(
    tiny_values: dict[str, Any], tmp_path: Path, change: str, sentence: str
) -> None:
    interrupted(tiny_values, tmp_path / "run")
    file = tmp_path / "run" / "config.yaml"
    text = file.read_text()
    file.write_text(text.replace(change, f"{change.split(':')[0]}: {sentence.rpartition(' ')[2]}"))
    with pytest.raises(UserError, match=re.escape(sentence)):
        resume(tmp_path / "run")
    file.write_text(text.replace("device: cpu", "device: auto"))  # where it runs may change
    assert resume(tmp_path / "run").steps == 8


@pytest.mark.parametrize(
    ("asked", "used", "expected"),
    [("auto", "cuda", "cpu"), ("cuda", "cuda", "cuda"), ("auto", "cpu", "cpu"), ("cuda:1", "cuda:1", "cuda:1")],
)
def test_a_run_that_left_its_device_open_is_resumed_without_the_gpu(
    asked: str, used: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked for by name is used, and missed with one sentence."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    request, config = (configure(options={"training": {"device": device}}) for device in (asked, used))
    assert device_of(request, config) == expected


def test_a_checkpoint_with_other_bytes_is_not_used(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    finished(tiny_values, tmp_path / "whole")
    interrupted(tiny_values, tmp_path / "run")
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    newest.write_bytes(bytes(content))
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_model_that_is_gone_is_made_again(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    finished(tiny_values, tmp_path / "run")
    before = weights_of(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    resume(tmp_path / "run")
    after = weights_of(tmp_path / "run")
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00"])
def test_a_damaged_configuration_is_named(tiny_values: dict[str, Any], tmp_path: Path, content: bytes) -> None:
    finished(tiny_values, tmp_path / "run")
    (tmp_path / "run" / "config.yaml").write_bytes(content)
    with pytest.raises(UserError, match=r"config\.yaml is (empty|not a text file)"):
        resume(tmp_path / "run")


@pytest.mark.parametrize(("pool", "size"), [("all", 144), ("unlabelled", 128)])
def test_a_resumed_run_has_the_same_pool(tiny_values: dict[str, Any], tmp_path: Path, pool: str, size: int) -> None:
    """Of 160 training images, 16 are labelled and 16 held out for validation: 128 have no label."""
    values = merge(tiny_values, {"data": {"pool": pool}})
    train(config_of(values), tmp_path / "whole")
    interrupted(values, tmp_path / "run")
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    assert pq.read_table(tmp_path / "run" / "pseudo_labels.parquet").num_rows == 128
    run = RunFolder(tmp_path / "run")
    problem = read_problem(run.config(), run, NullObserver())
    assert len(problem.split.unlabelled) == size
    assert "16 labelled images, 128 unlabelled, 16 for validation" in problem.counts()


def edit(file: Path, **changes: Any) -> None:
    """Change values of a JSON file by hand, without its checksum."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_an_edited_split_is_noticed(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    interrupted(tiny_values, run)
    saved = (run / "split.json").read_text()
    edit(run / "split.json", validation=json.loads(saved)["labelled"])
    with pytest.raises(UserError, match=r"split\.json was edited or damaged after it was written"):
        resume(run)
    # Also with a checksum that fits: the checkpoint has its own.
    values = json.loads(saved)
    values.pop("digest")
    values["labelled"], values["validation"] = values["validation"], values["labelled"]
    write_with_digest(run / "split.json", values)
    with pytest.raises(UserError, match=r"was trained with other inputs than it has now \(split\)"):
        resume(run)
    (run / "split.json").write_text(saved)
    assert resume(run).steps == 8


def test_a_truncated_configuration_is_noticed_before_the_first_checkpoint(
    tiny_values: dict[str, Any], tmp_path: Path
) -> None:
    interrupted_early(tiny_values, tmp_path / "run")
    file = tmp_path / "run" / "config.yaml"
    whole = file.read_text()
    file.write_text(whole[: whole.index("optim:")])
    with pytest.raises(UserError, match=r"config\.yaml is not the configuration .*\(optim\.lr was 0\.1 and is auto; "):
        resume(tmp_path / "run")
    file.write_text(whole)
    assert resume(tmp_path / "run").steps == 8


def test_a_run_of_an_earlier_version_is_one_sentence(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    interrupted(tiny_values, tmp_path / "run")
    (tmp_path / "run" / "request.yaml").unlink()
    with pytest.raises(UserError, match=r"run was made by an earlier version of SemCo; train it again\."):
        resume(tmp_path / "run")


def test_a_deleted_split_is_noticed_before_the_first_checkpoint(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    interrupted_early(tiny_values, tmp_path / "run")
    (tmp_path / "run" / "split.json").unlink()
    with pytest.raises(UserError, match=r"split\.json is missing: restore it, or start a new run"):
        resume(tmp_path / "run")
    (tmp_path / "run" / "labels.json").unlink()  # as if it had been killed before anything was written
    assert resume(tmp_path / "run").steps == 8


def test_a_report_of_an_edited_configuration_is_refused(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    interrupted_early(tiny_values, tmp_path / "run")
    file = tmp_path / "run" / "config.yaml"
    whole = file.read_text()
    for seed, sentence in (("1", "training.seed was 0 and is 1"), ("many", "seed")):
        file.write_text(whole.replace("seed: 0", f"seed: {seed}"))
        with pytest.raises(UserError, match=sentence):
            write_report([tmp_path / "run"], tmp_path / "page.html")


@pytest.mark.parametrize(
    ("name", "sentence"), [("x_test", "test images are not those"), ("y_test", "test labels are not those")]
)
def test_other_test_images_are_noticed_before_the_first_checkpoint(
    tiny_values: dict[str, Any], tiny_npz: Path, tmp_path: Path, name: str, sentence: str
) -> None:
    data = tmp_path / "data.npz"
    shutil.copy(tiny_npz, data)
    interrupted_early(merge(tiny_values, {"data": {"source": str(data)}}), tmp_path / "run")
    with np.load(tiny_npz) as file:
        arrays = dict(file)
    arrays[name][0] = 1 - arrays[name][0] // 255 * 255 if name == "x_test" else 1
    np.savez(data, **arrays)
    with pytest.raises(UserError, match=sentence):
        resume(tmp_path / "run")


@pytest.mark.parametrize("name", ["result.json", "labels.json", "split.json", "evaluation.json"])
def test_edited_files_of_a_finished_run_are_noticed(tiny_values: dict[str, Any], tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    finished(tiny_values, run)
    saved = json.loads((run / name).read_text())
    key = next(key for key in saved if key != "digest")
    without_digest = {k: v for k, v in saved.items() if k != "digest"}
    for edited in (saved | {key: "x"}, without_digest, {}):
        (run / name).write_text(json.dumps(edited))
        with pytest.raises(UserError, match=rf"{name} was edited or damaged after it was written: restore it"):
            write_report([run], tmp_path / "page.html")
        if name == "result.json":
            with pytest.raises(UserError, match="was edited or damaged"):
                resume(run)
    shutil.copy(run / ("labels.json" if name != "labels.json" else "split.json"), run / name)  # whole, but another file
    with pytest.raises(UserError, match=rf"{name} was edited or damaged"):
        write_report([run], tmp_path / "page.html")


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_files_that_are_written_in_place_do_not_lead_elsewhere(
    tiny_values: dict[str, Any], tmp_path: Path, name: str, kind: str
) -> None:
    interrupted(tiny_values, tmp_path / "run")
    file = tmp_path / "run" / name
    file.unlink()
    {"link": lambda: file.symlink_to(tmp_path / "outside"), "pipe": lambda: os.mkfifo(file), "folder": file.mkdir}[
        kind
    ]()
    with pytest.raises(UserError, match=rf"cannot write .*{name}: it is a .*{kind}, not a regular file; remove it"):
        resume(tmp_path / "run")
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("content", ["[1, 2]", "{}", '{"labelled": 3, "digest": "x"}', "\udcff", "["])
@pytest.mark.parametrize("name", ["split.json", "labels.json"])
def test_foreign_content_is_one_sentence(tiny_values: dict[str, Any], tmp_path: Path, name: str, content: str) -> None:
    run = tmp_path / "run"
    interrupted(tiny_values, run)
    (run / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=name):
        resume(run)


def test_an_older_checkpoint_is_used_where_the_newest_is_no_file(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    finished(tiny_values, tmp_path / "whole")
    for kind in ("link", "folder", "short", "fifo"):
        run = tmp_path / kind
        interrupted(tiny_values, run)
        newest = max((run / "checkpoints").iterdir())
        content = newest.read_bytes()
        newest.unlink()
        match kind:
            case "link":
                newest.symlink_to(tmp_path / "nowhere")
            case "folder":
                newest.mkdir()
            case "short":
                newest.write_bytes(content[:100])
            case "fifo":
                os.mkfifo(newest)
        if kind == "folder":  # in the way of the checkpoint that the resumed run writes at the same step
            with pytest.raises(UserError, match="cannot write"):
                resume(run)
            newest.rmdir()
        resume(run)
        assert_same_run(tmp_path / "whole", run)


def test_foreign_lines_among_the_metrics_are_left_out(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    finished(tiny_values, tmp_path / "whole")
    run = tmp_path / "run"
    interrupted(tiny_values, run)
    with (run / "metrics.jsonl").open("ab") as stream:
        stream.write(b'\xff\xfe\n[1]\n{"step": "a"}\n{"other": 1}\n{"step": true}\n' + b"[" * 5000 + b"\n")
    resume(run)
    assert_same_run(tmp_path / "whole", run)


def test_a_checkpoint_that_a_kill_left_is_removed_by_resume(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """The process was killed after the last save, before it removed the oldest checkpoint."""
    run = tmp_path / "run"
    finished(tiny_values, run)
    newest = max((run / "checkpoints").iterdir())
    old = newest.with_name("step-000000003.safetensors")
    shutil.copy(newest, old)
    (run / "result.json").unlink()
    content = newest.read_bytes()
    newest.write_bytes(content[:-1])  # while the newest is damaged, the older ones are kept
    resume(run)
    shutil.copy(newest, old)
    (run / "result.json").unlink()
    resume(run)
    assert sorted(path.name[-14:-12] for path in (run / "checkpoints").iterdir()) == ["06", "08"]


def test_metrics_are_on_the_disk_before_the_checkpoint_after_them(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    fsync = os.fsync

    def remember(handle: int) -> None:
        names.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", remember)
    train(config_of(tiny_values), tmp_path / "run")
    first = next(i for i, name in enumerate(names) if name.startswith(".step-"))
    assert names[first - 1 : first + 2] == ["metrics.jsonl", names[first], "checkpoints"]


def test_leftovers_of_a_kill_are_removed_and_nothing_else(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    interrupted(tiny_values, run)
    leftovers = [run / ".split.json.abcd_f12.tmp", run / "checkpoints/.tmpAb12Cd", run / "checkpoints/.x.12345678.tmp"]
    others = [run / "notes.tmp", run / ".hidden", run / "checkpoints/notes.txt", run / "checkpoints/.tmpAb12Cdef"]
    others += [run / ".notes.tmp", run / ".my.notes.tmp"]
    for file in (*leftovers, *others):
        file.write_text("x")
    resume(run)
    assert [file.exists() for file in leftovers] == [False] * 3
    assert [file.exists() for file in others] == [True] * 6


@pytest.mark.usefixtures("page")
def test_a_failure_after_the_result_costs_nothing(
    tiny_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of pseudo-labels cannot be written: the result is there, and resume writes the rest."""
    run = tmp_path / "run"

    def fail(*_: object) -> None:
        raise UserError("the disk is full.")

    with monkeypatch.context() as full:
        full.setattr("semco.experiment.write.write_pseudo_labels", fail)
        with pytest.raises(UserError, match="the disk is full"):
            train(config_of(tiny_values), run)
    result = RunFolder(run).result()
    assert not (run / "pseudo_labels.parquet").exists()
    again = resume(run)
    assert again.model_copy(update={"seconds": result.seconds}) == result
    assert (run / "pseudo_labels.parquet").exists()
    assert (run / "report.html").exists()


@pytest.mark.usefixtures("page")
def test_names_that_are_not_utf8_survive(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """A photo and a class folder with a name in Latin-1: the run ends, and the table holds the bytes."""
    for number in range(12):
        folder = tmp_path / "photos" / ("caf\udce9", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (20 * number, 0, 0)).save(folder / f"caf\udce9{number}.png")
    values = merge(tiny_values, {"data": {"source": str(tmp_path / "photos"), "labels_per_class": 2, "image_size": 8}})
    values = merge(values, {"method": {"name": "fixmatch"}, "labels": {"source": "bundled", "path": None, "eps": 0.2}})
    train(configure(options=values), tmp_path / "run")
    table = pq.read_table(tmp_path / "run" / "pseudo_labels.parquet").to_pydict()
    assert any(path.endswith(b"caf\xe90.png") for path in table["path_bytes"])
    assert any(path.endswith("caf\\xe90.png") for path in table["path"])
    names = json.loads((tmp_path / "run" / "labels.json").read_text())["names"]
    assert sorted(names) == ["caf\udce9", "dog"]
    assert "caf\\xe9" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert resume(tmp_path / "run").steps == 8
