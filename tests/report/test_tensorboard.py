"""Following a run: TensorBoard, several observers, and a run that another process trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from semco.config import Config
from semco.experiment import train
from semco.report.tensorboard import TensorBoard
from semco.run.folder import RunFolder
from semco.training.observer import MetricsLine, NullObserver, Observers


class Recorder(NullObserver):
    def __init__(self) -> None:
        self.lines: list[MetricsLine] = []
        self.starts: list[tuple[int, int]] = []

    def on_start(self, step: int, total_steps: int) -> None:
        self.starts.append((step, total_steps))

    def on_line(self, line: MetricsLine) -> None:
        self.lines.append(line)


@pytest.fixture(scope="module")
def recorded(tiny_values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recorder]:
    run = tmp_path_factory.mktemp("watched") / "run"
    recorder, board = Recorder(), TensorBoard(run)
    train(Config.parse(tiny_values), run, Observers(recorder, board))
    board.finish()
    return run, recorder


@pytest.mark.filterwarnings("ignore")  # of TensorBoard's own imports
def test_scalars_mistakes_and_the_label_map(recorded: tuple[Path, Recorder]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run, recorder = recorded
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    losses = [(event.step, event.value) for event in events.Scalars("loss")]
    assert losses == [(line["step"], pytest.approx(line["loss"])) for line in recorder.lines]
    mistakes = [s for s in RunFolder(run).read_json(run / "evaluation.json")["samples"] if s["kind"] == "mistake"]
    assert len(events.Tags()["images"]) == len(mistakes)
    (table,) = (run / "tensorboard").rglob("metadata.tsv")
    assert table.read_text().splitlines()[:2] == ["class\tgroup", "dog\t0"]
