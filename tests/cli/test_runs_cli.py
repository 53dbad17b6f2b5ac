"""``semco train`` and ``semco resume``: kills and signals as real processes, bad input.

A real process imports torch for seconds, so those commands that nothing interrupts run in the process of the tests,
and those that a signal interrupts are forked from a process that has imported it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file

from semco.cli.running import exit_code, stops_on_sigterm
from semco.config import merge
from semco.errors import SemcoWarning
from semco.files import atomic_path
from semco.run.folder import RunFolder
from semco.training.signals import Stopped
from tests.cli.held import configure_small_demo, start_held
from tests.cli.in_process import run_here
from tests.forking import forked_python, start_semco

WAIT = 240.0  # seconds until a process counts as hanging, on a machine that is busy with other work
pytestmark = [pytest.mark.timeout(3 * WAIT), pytest.mark.usefixtures("no_page")]


@pytest.fixture
def config_file(tiny_values: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(tiny_values))
    return path


@pytest.fixture
def long_config_file(tiny_values: dict[str, Any], tmp_path: Path) -> Path:
    """A run with a checkpoint in the middle, between two lines of metrics and between two validations."""
    longer = {"steps": 30, "checkpoint_every": 10, "log_every": 7, "validate_every": 8}
    path = tmp_path / "long.yaml"
    path.write_text(yaml.safe_dump(merge(tiny_values, {"training": longer})))
    return path


@pytest.mark.usefixtures("page")
def test_train_ends_with_one_json_object(config_file: Path, tmp_path: Path) -> None:
    done = run_here("train", "--config", config_file, "--out", tmp_path / "run", "--method", "fixmatch", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["method"] == "fixmatch"
    assert {"test_accuracy", "test_error", "steps", "seconds", "run"} <= result.keys()
    assert result["run"] == str(tmp_path / "run")
    assert (tmp_path / "run" / "report.html").exists()


def test_options_go_over_the_file_and_settings_over_options(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ["--steps", 3, "--seed", 5, "--backbone", "wrn-10-2", "--set", "training.steps=2", "--mu", 1]
    done = run_here("train", "--config", config_file, "--out", run, *options)
    assert done.returncode == 0, done.stderr
    saved = yaml.safe_load((run / "config.yaml").read_text())
    assert saved["training"]["steps"] == 2
    assert saved["training"]["seed"] == 5
    assert saved["training"]["mu"] == 1
    assert saved["model"]["backbone"] == "wrn-10-2"
    assert str(run / "report.html") in done.stdout


def test_a_folder_is_found_again_from_anywhere(config_file: Path, tmp_path: Path) -> None:
    for number in range(24):
        file = tmp_path / "photos" / ("cat", "dog")[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (10 * number, 0, 0)).save(file)
    (tmp_path / "photos/cat/IMG.MOV").write_bytes(b"")
    (tmp_path / "photos/stray.png").write_bytes(b"")
    options = ["--config", config_file, "--out", "run", "--labels-per-class", 4, "--set", "data.image_size=8"]
    done = run_here("train", "photos", *options, "--steps", 2, "--method", "fixmatch", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ignored files that are not images of a class: 1 .mov\n" in done.stderr
    assert "1 image(s) in no class folder are not used: put them into" in done.stderr
    (tmp_path / "run/result.json").unlink()
    (tmp_path / "elsewhere").mkdir()
    again = run_here("resume", "../run", cwd=tmp_path / "elsewhere")
    assert again.returncode == 0, again.stderr


def wait_for_step(run: Path, step: int, process: subprocess.Popen[str]) -> None:
    """Until a log line of that step or later is there; on a busy machine it takes minutes to import torch."""
    file, deadline = run / "metrics.jsonl", time.monotonic() + WAIT
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        if file.exists():
            lines = file.read_text().splitlines()
            if any(json.loads(line)["step"] >= step for line in lines if line.endswith("}")):
                return
        time.sleep(0.01)
    raise AssertionError(f"step {step} was never reached")


def metrics_of(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def test_a_killed_run_resumes_bit_for_bit(long_config_file: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run_here("train", "--config", long_config_file, "--out", whole).returncode == 0
    process = start_held(15, "train", "--config", long_config_file, "--out", broken)
    wait_for_step(broken, 14, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (broken / "result.json").exists()
    resumed = run_here("resume", broken, "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout.splitlines()[-1])["run"] == str(broken)
    assert metrics_of(whole) == metrics_of(broken)
    first, second = (load_file(run / "model" / "model.safetensors") for run in (whole, broken))
    assert all(torch.equal(first[name], second[name]) for name in first)
    last = "checkpoints/step-000000030.safetensors"
    first, second = (load_file(run / last) for run in (whole, broken))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 138)])
def test_a_signal_saves_and_says_how_to_go_on(
    long_config_file: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    run = tmp_path / "run"
    process = start_held(8, "train", "--config", long_config_file, "--out", run)
    wait_for_step(run, 8, process)
    process.send_signal(number)
    _, error = process.communicate(timeout=WAIT)
    assert process.returncode == code, error
    assert f"semco resume {run}" in error
    assert "Traceback" not in error
    assert list((run / "checkpoints").glob("step-*.safetensors"))


def test_an_interrupted_demo_resumes_by_the_printed_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start_held(3, "demo", "--from-scratch", "--steps", 10, "--out", "the demo", small_demo=True, cwd=tmp_path)
    monkeypatch.setattr("semco.cli.demo.configure_run", configure_small_demo)
    run = tmp_path / "the demo" / "supervised"
    wait_for_step(run, 3, process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=WAIT)
    assert process.returncode == 130, error
    assert "Resume with: semco demo --from-scratch --out 'the demo' --steps 10 --seed 0" in " ".join(error.split())
    begun = metrics_of(run)
    again = run_here("demo", "--from-scratch", "--out", "the demo", "--steps", 10, "--seed", 0, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert metrics_of(run)[: len(begun)] == begun
    assert (tmp_path / "the demo" / "report.html").exists()
    other = run_here("demo", "--from-scratch", "--out", "the demo", "--steps", 10, "--seed", 1, cwd=tmp_path)
    assert other.returncode == 2
    assert "was made with another configuration (training.seed)" in other.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_a_comparison_ends_its_runs(
    tiny_values: dict[str, Any], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """The signal goes to the one process alone, as `kill` sends it."""
    data, steps = tiny_values["data"]["source"], ["--steps", "100000", "--set", "training.log_every=5"]
    command = ["compare", data, "--methods", "supervised,pi_model", "--seeds", "0", "--out", tmp_path, *steps]
    small = ["--backbone", "wrn-10-1", "--batch-size", "8", "--labels-per-class", "4"]
    process = start_semco(*command, *small)
    run = tmp_path / "supervised-seed0"
    wait_for_step(run, 10, process)
    process.send_signal(number)
    _, error = process.communicate(timeout=WAIT)
    assert process.returncode == code, error
    assert f"stopped by {number.name}; what was started is saved. Run the same command to continue." in error
    assert list((run / "checkpoints").glob("step-*.safetensors"))
    with RunFolder(run).lock():  # nobody trains there any more
        assert not (tmp_path / "pi_model-seed0").exists()


BAD = {
    "a missing folder": (["train", "no-such-folder"], "no-such-folder"),
    "an unknown method": (["train", "DATA", "--method", "semko"], "did you mean 'semco'"),
    "an unknown backbone": (["train", "DATA", "--backbone", "wrn-28"], "wrn-28-2"),
    "an unknown key": (["train", "DATA", "--set", "training.stepz=3"], "did you mean 'steps'"),
    "an unknown section": (["train", "DATA", "--set", "trainning.steps=3"], "did you mean 'training'"),
    "a bad value": (["train", "DATA", "--set", "training.steps=-3"], "training.steps"),
    "an unknown recipe": (["train", "DATA", "--recipe", "demoo"], "did you mean 'demo'"),
    "a missing file": (["train", "DATA", "--config", "nothing.yaml"], "nothing.yaml"),
    "too few labels": (["train", "DATA", "--num-labels", "2"], "4 classes"),
    "too many labels": (["train", "DATA", "--labels-per-class", "1000"], "1000"),
    "an unknown class": (["train", "DATA", "--classes", "dog,catt"], "did you mean 'cat'"),
    "two lengths": (["train", "DATA", "--steps", "3", "--epochs", "1"], "give one of steps, epochs and minutes"),
    "no run": (["resume", "nowhere"], "nowhere"),
    "no data to compare on": (["compare", "nowhere", "--methods", "semco", "--out", "runs"], "nowhere"),
    "nothing to train on": (["train", "--steps", "3"], "give the data to train on"),
    "no value": (["train", "DATA", "--set", "training.steps="], "write training.steps=null"),
    "a device": (["train", "DATA", "--set", "training.device=gpu"], "gpu"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence(what: str, tiny_npz: Path, tmp_path: Path) -> None:
    arguments, expected = BAD[what]
    filled = [str(tiny_npz) if argument == "DATA" else argument for argument in arguments]
    done = run_here(*filled, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "runs").exists(), "nothing is left behind"


def test_help_needs_none_of_the_heavy_libraries() -> None:
    """What makes ``semco --help`` quick: no import of seconds, neither at the start nor while it is printed."""
    code = """
import sys
from semco.cli.main import app
for command in ([], ["train"], ["labels"], ["data"]):
    try:
        app([*command, "--help"])
    except SystemExit as ended:
        assert ended.code == 0
heavy = {"torch", "sklearn", "scipy", "matplotlib", "numpy", "pyarrow", "transformers"}
print(sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("Usage: ") == 4
    assert done.stderr.strip() == "[]"


def test_a_run_whose_reader_has_gone_is_saved(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """Its last checkpoint is of the step at which it noticed; no other is due before step 100,000."""
    training = {"steps": 100_000, "log_every": 1, "checkpoint_every": 100_000}
    file, run = tmp_path / "config.yaml", tmp_path / "run"
    file.write_text(yaml.safe_dump(merge(tiny_values, {"training": training})))
    command = [forked_python(), "-m", "semco", "train", "--config", file, "--out", run]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    while not (run / "metrics.jsonl").exists() and process.poll() is None:
        time.sleep(0.05)
    process.stderr.close()
    assert process.wait(WAIT) != 0
    assert list((run / "checkpoints").glob("step-*.safetensors"))


def test_output_into_a_closed_pipe_is_quiet() -> None:
    code = f"{sys.executable} -m semco recipes | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False, env=dict(os.environ))
    assert "Traceback" not in done.stderr


def test_warnings_are_sentences_and_those_of_libraries_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def warn() -> None:
        warnings.warn("deprecated, see https://example.org", UserWarning, stacklevel=1)
        warnings.warn(
            "the groups [all] are large; a smaller labels.eps makes smaller ones.", SemcoWarning, stacklevel=1
        )

    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert exit_code(warn) == 0
    assert capsys.readouterr().err == "warning: the groups [all] are large; a smaller labels.eps makes smaller ones.\n"
    assert warnings.showwarning is before


def test_a_warning_of_a_run_names_no_file_of_the_source(config_file: Path, tmp_path: Path) -> None:
    one_group = ["--steps", 1, "--set", "labels.eps=2"]
    done = run_here("train", "--config", config_file, "--out", tmp_path / "run", *one_group)
    assert done.returncode == 0, done.stderr
    assert "warning: 1 group(s) over 4 classes leave little to tell apart" in done.stderr
    assert "scale.py" not in done.stderr


@pytest.mark.parametrize("arguments", [("report",), ("compare", "x", "--methods", "semco", "--out")])
def test_paths_that_the_system_refuses_end_in_one_sentence(arguments: tuple[str, ...]) -> None:
    done = run_here(*arguments, 300 * "x")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_an_error_of_the_system_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise PermissionError(13, "Permission denied", "photos/a.png")

    assert exit_code(fail) == 2
    expected = "error: cannot use photos/a.png: Permission denied; check the path, its permissions and the disk."
    assert capsys.readouterr().err.strip() == expected


def test_names_that_are_not_utf8_are_printed(tmp_path: Path) -> None:
    program = "import sys; from semco.cli.main import print_any_name; print_any_name(); "
    program += "print(sys.argv[1]); print(sys.argv[1], file=sys.stderr)"
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    command = [sys.executable, "-c", program, b"caf\xe9"]
    done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path, check=True)
    assert done.stdout == done.stderr == b"caf\\udce9\n"


@pytest.mark.parametrize(
    ("model", "sentence"), [("gone", "there is no run folder gone"), ("gone.onnx", "gone.onnx is missing")]
)
def test_predict_names_a_missing_run_first(tmp_path: Path, model: str, sentence: str) -> None:
    """Not the file of an earlier prediction, which also stands in the way."""
    (tmp_path / "predictions.csv").touch()
    done = run_here("predict", model, "photo.jpg", cwd=tmp_path)
    assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr


def test_a_command_that_sigterm_ends_removes_its_files(tmp_path: Path) -> None:
    with pytest.raises(Stopped) as ended, stops_on_sigterm(), atomic_path(tmp_path / "model.onnx"):
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.exit_code == 143
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
