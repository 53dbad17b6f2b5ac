"""The length of the runs of a comparison: equal steps or equal time, decided once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from semco.config import Config, configure
from semco.errors import UserError
from semco.experiment import lengths
from semco.experiment.comparison import Cell
from semco.experiment.lengths import Lengths, choose_lengths, read_lengths, steps_that_fit, with_lengths
from semco.experiment.plan import FEWEST_STEPS, MINUTES, Speed, with_default_minutes
from semco.resolve.rules import MOST_STEPS
from semco.run.folder import RunFolder

STEPS_PER_MINUTE = {"supervised": 30, "fixmatch": 10, "semco": 6}


def steps_of(request: Config, minutes: float) -> int:
    return round(STEPS_PER_MINUTE[request.method.name] * minutes)


def no_timing(*_: object) -> int:
    pytest.fail("timed")


def cell(method: str, seed: int = 0, **sections: Any) -> Cell:
    training = {"seed": seed, **sections.pop("training", {})}
    config = configure(options={"method": {"name": method}, "training": training, **sections})
    return Cell(method, seed, config, RunFolder(Path(f"{method}-{seed}")))


LOADED = {"model": {"backbone": "efficientnet-lite0"}}


def test_from_scratch_the_slowest_method_decides_how_many_steps_all_take() -> None:
    cells = [cell("supervised"), cell("fixmatch"), cell("semco")]
    found = choose_lengths(cells, "steps", None, steps_of=steps_of)
    assert found == Lengths("steps", MINUTES, {"supervised": 90, "fixmatch": 90, "semco": 90})  # 15 minutes of semco
    assert found.describe() == "equal steps, 90 per run, 15 min for the slowest here"
    assert choose_lengths(cells, "steps", 2, steps_of=steps_of).steps["supervised"] == 12


def test_with_equal_time_each_method_takes_as_many_as_fit() -> None:
    found = choose_lengths([cell("supervised"), cell("semco")], "time", 2, steps_of=steps_of)
    assert found == Lengths("time", 2, {"supervised": 60, "semco": 12})
    assert found.describe() == "equal time, 2 min per run here; steps: supervised 60, semco 12"


def test_from_loaded_weights_nothing_is_timed() -> None:
    cells = [cell("fixmatch", **LOADED), cell("semco_plus", **LOADED)]
    found = choose_lengths(cells, "steps", None, steps_of=no_timing)
    assert found == Lengths("steps", None, {"fixmatch": MOST_STEPS, "semco_plus": MOST_STEPS})
    assert found.describe() == "equal steps, 600 per run"
    assert choose_lengths([cell("semco", **LOADED)], "steps", 2, steps_of=steps_of).steps == {"semco": 12}


@pytest.mark.parametrize("equal", ["steps", "time"])
def test_what_was_decided_before_stays(equal: lengths.Equal) -> None:
    saved = Lengths(equal, 2, {"supervised": 60})
    same = choose_lengths([cell("supervised")], equal, None, saved, no_timing)
    assert same == saved
    more = choose_lengths([cell("supervised"), cell("semco")], equal, None, saved, steps_of)
    assert more.steps == {"supervised": 60, "semco": 60 if equal == "steps" else 12}


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods that were timed."""
    names: list[str] = []

    def counted(request: Config, minutes: float) -> int:
        names.append(request.method.name)
        return steps_of(request, minutes)

    monkeypatch.setattr(lengths, "steps_that_fit", counted)
    return names


def test_the_plan_is_kept_beside_the_runs(timed: list[str], tmp_path: Path) -> None:
    cells = [cell("supervised", 0), cell("supervised", 1), cell("semco", 0), cell("semco", 1)]
    first, plan = with_lengths(cells, tmp_path / "out", "steps", 2)
    assert timed == ["supervised", "semco"]  # each variant once
    assert [each.config.training.steps for each in first] == [12] * 4
    assert read_lengths(tmp_path / "out") == plan
    again, same = with_lengths(cells, tmp_path / "out", "steps")
    assert (again, same) == (first, plan)
    assert len(timed) == 2


def test_a_given_length_is_kept(timed: list[str], tmp_path: Path) -> None:
    cells = [cell("supervised", training={"steps": 7}), cell("semco", training={"epochs": 0.5})]
    assert with_lengths(cells, tmp_path, "time") == (cells, None)
    some, plan = with_lengths([*cells, cell("fixmatch")], tmp_path, "steps", 2)
    assert some[:2] == cells
    assert some[2].config.training.steps == 20
    assert plan is not None
    assert plan.steps == {"fixmatch": 20}
    assert timed == ["fixmatch"]


@pytest.mark.parametrize(("equal", "minutes"), [("time", None), ("steps", 3)])
@pytest.mark.usefixtures("timed")
def test_other_lengths_in_the_same_folder_are_refused(
    equal: lengths.Equal, minutes: float | None, tmp_path: Path
) -> None:
    with_lengths([cell("semco")], tmp_path, "steps", 2)
    message = "holds a comparison with equal steps, 12 per run, 2 min for the slowest here; repeat it with the same"
    with pytest.raises(UserError, match=message):
        with_lengths([cell("semco")], tmp_path, equal, minutes)
    assert with_lengths([cell("semco")], tmp_path, "steps", 2)[0][0].config.training.steps == 12


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "{}",
        '{"equal": "steps", "minutes": "x", "steps": {"a": 1}}',
        '{"equal": "steps", "minutes": 1, "steps": {}}',
    ],
)
def test_a_damaged_plan_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(UserError, match=r"plan\.json"):
        read_lengths(tmp_path)


@pytest.mark.parametrize(("step_seconds", "steps"), [(2.0, 30), (100.0, FEWEST_STEPS)])
def test_steps_are_timed_on_the_data(
    step_seconds: float, steps: int, tiny_values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lengths, "measure_speed", lambda _: Speed(step_seconds, 0.0, repeats=1))
    request = configure(options=tiny_values | {"training": {"steps": None, "batch_size": 4}})
    assert steps_that_fit(request, 1) == steps


def test_a_method_without_steps_has_minutes(tmp_path: Path) -> None:
    """They are those that `semco train` would add, so that a repeated comparison finds its own request."""
    probe = cell("linear_probe", **LOADED)
    cells, found = with_lengths([probe, cell("semco_plus", **LOADED)], tmp_path, "steps")
    assert [each.config.training.minutes for each in cells] == [MINUTES, None]
    assert all(with_default_minutes(each.config) == each.config for each in cells)
    assert found == Lengths("steps", None, {"semco_plus": MOST_STEPS})
    alone, found = with_lengths([probe], tmp_path / "alone", "time", 3)
    assert (alone[0].config.training.minutes, found) == (3, None)
