"""The scripts that print the numbers of README and of the docs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.conftest import load_script


def test_the_headline_has_means_and_paired_differences() -> None:
    headline = load_script("headline")
    accuracies = {"linear_probe": {0: 0.50, 1: 0.60}, "semantic_probe": {0: 0.61, 1: 0.67}}
    titles, _, row = headline.table({"fruit": accuracies}, seeds=2)
    assert titles.startswith("| 5 labels per class, 2 seeds, test accuracy | linear probe |")
    # Of the differences 11 and 7 the standard error is half of their distance: 2 points.
    assert row == "| fruit | 55.0 | **64.0** | +9.0 ± 2.0 |"


@pytest.mark.slow  # 30 seconds of CPU for the features of all photos of fruit
@pytest.mark.usefixtures("forked_processes")
def test_the_headline_is_trained_and_finished_runs_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    headline = load_script("headline")
    monkeypatch.setattr(headline, "LABELS_PER_CLASS", 2)
    for _ in range(2):
        headline.main(["--seeds", "0", "--out", str(tmp_path / "runs")])
    first, second = capsys.readouterr().out.split("| 2 labels per class")[1:]
    assert first.strip() == second.strip()
    assert len(list((tmp_path / "runs").glob("fruit-mini/*/result.json"))) == 2


def write_run(folder: Path, method: str, seed: int, accuracy: float | None) -> None:
    run = folder / f"{method}-seed{seed}"
    run.mkdir(parents=True)
    (run / "result.json").write_text(json.dumps({"test_accuracy": accuracy}))


def test_the_table_of_results_joins_folders_and_pairs_by_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, ours, other in [(0, 0.61, 0.50), (1, 0.67, 0.60)]:
        write_run(tmp_path / "a", "semco_plus", seed, ours)
        write_run(tmp_path / "more", "fixmatch", seed, other)
    write_run(tmp_path / "more", "fixmatch", 2, 0.70)  # no run of ours has this seed
    write_run(tmp_path / "b", "semco_plus", 0, 0.30)
    write_run(tmp_path / "b", "uda", 0, None)  # not finished
    problems = [f"A={tmp_path / 'a'},{tmp_path / 'more'}", f"B={tmp_path / 'b'}"]
    script = load_script("results")
    script.main([*problems, "--against", "semco_plus"])
    # FixMatch: mean of 50, 60, 70, standard error 10 / sqrt(3); differences -11 and -7. SemCo+ has the lower mean.
    assert capsys.readouterr().out.splitlines() == [
        "| method | A | against semco_plus | B | against semco_plus |",
        "|---|---|---|---|---|",
        "| fixmatch | 60.0 ± 5.8 | -9.0 ± 2.0 | – | – |",
        "| semco_plus | 64.0 ± 3.0 (2 of 3 seeds) |  | 30.0 |  |",
    ]
    script.main([*problems, "--each"])
    assert "| A | fixmatch | 0: 50.0, 1: 60.0, 2: 70.0 |" in capsys.readouterr().out


def test_readings_of_a_perfect_prediction() -> None:
    """Three classes at right angles, the first two in one group."""
    readings = load_script("readings").readings(torch.eye(3), torch.tensor([0, 0, 1]), ["a", "b", "c"])
    found = {title: score(torch.eye(3)[:1])[0].tolist() for title, score in readings.items()}
    e = torch.e
    expected = {
        "softmax, no scale": [(e + 1) / (e + 2), 1 / (e + 2)],
        "L1: cosines / sum of their sizes": [1, 0],
        "L2: cosines / their length": [1, 0],
        "raw sum in the group": [1, 0],
        "raw mean in the group (released code)": [0.5, 0],
        "softmax, scale: authors (6.0)": [(e**6 + 1) / (e**6 + 2), 1 / (e**6 + 2)],
    }
    for title, scores in expected.items():
        assert found[title] == pytest.approx(scores, rel=1e-4)
    # With x = e^s two perfect predictions score (x + 1) / (x + 2) and one x / (x + 2): a mean of 0.9 at x = 34 / 3.
    assert found["softmax, scale: solved (2.4)"] == pytest.approx([37 / 40, 3 / 40], rel=1e-4)


def test_what_is_retained_is_averaged_over_log_lines_and_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = {
        0: [(10, 0.0, None), (20, 0.4, 0.5), (30, 0.6, 0.7)],  # nothing is retained in the first line
        1: [(10, 0.2, 0.9), (20, 0.2, 0.7), (30, 0.8, 0.9)],
    }
    for seed, own in lines.items():
        run = tmp_path / f"fixmatch-seed{seed}"
        run.mkdir()
        keys = ("step", "pseudo/one_hot/ratio", "pseudo/one_hot/accuracy")
        (run / "metrics.jsonl").write_text("\n".join(json.dumps(dict(zip(keys, line, strict=True))) for line in own))
    load_script("retained").main(["--until", "20,30", *map(str, sorted(tmp_path.iterdir()))])
    # Steps 1 to 20: (0 + 0.4 + 0.2 + 0.2) / 4 retained; right: the mean of 0.5 and (0.9 + 0.7) / 2.
    assert capsys.readouterr().out == "| fixmatch, one_hot, 2 runs | 20, 65 | 70, 80 |\n"
