"""Groups that change while a run trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from semco.bench import synthetic
from semco.bench.synthetic import make_task
from semco.config import LabelsConfig
from semco.distributed.processes import Processes
from semco.methods.semco import SemCo, SemCoConfig
from semco.pseudo_labels import LearnedGroups
from semco.training.observer import NullObserver
from semco.training.regrouping import Regrouping, group_changes, learned_groups, moments
from semco.training.statistics import Meters
from semco.types import PseudoLabels, StepResult, Task
from tests.training.test_no_waiting import steps_of

NAMES = ("dog", "cat", "ship", "truck")
# Dog and cat share a group by their names, but the model takes ships for trucks.
CONFUSION = torch.tensor([[90.0, 0, 5, 5], [0, 90, 5, 5], [0, 0, 70, 30], [0, 0, 30, 70]])


class Messages(NullObserver):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_message(self, text: str) -> None:
        self.texts.append(text)


def learning_method(*, learns_groups: bool = True) -> SemCo:
    task = Task(NAMES, torch.eye(4), torch.tensor([0, 0, 1, 2]), torch.ones(4), 5, learns_groups=learns_groups)
    return SemCo(SemCoConfig(scale=10.0), task)


def regrouping_of(method: SemCo, observer: Messages, **labels: object) -> Regrouping:
    return Regrouping(method, LabelsConfig(**labels), 8, observer, Processes())


def test_moments() -> None:
    assert moments(8) == [2, 4, 6]
    assert moments(10) == [3, 5, 8]


def test_groups_change_at_the_moments_only() -> None:
    method, observer, meters = learning_method(), Messages(), Meters(torch.tensor([0, 0, 1, 2]))
    assert isinstance(method.groups, LearnedGroups)
    regrouping = regrouping_of(method, observer)
    method.groups.confusion.copy_(CONFUSION)
    regrouping.regroup_if_due(1, meters)
    assert method.groups.of_class.tolist() == [0, 0, 1, 2]
    regrouping.regroup_if_due(2, meters)
    assert method.groups.of_class.tolist() == [0, 1, 2, 2]
    regrouping.regroup_if_due(4, meters)
    assert observer.texts == ["groups: merged ship, truck; split dog, cat at step 2", "groups: no change at step 4"]
    assert group_changes(method.groups, 8) == [{"step": 2, "change": "merged ship, truck; split dog, cat"}]


def test_a_person_and_min_groups_are_heard() -> None:
    for labels, expected in (
        ({"apart": [("ship", "truck")], "together": [("dog", "cat")]}, [0, 0, 1, 2]),
        ({"min_groups": 4}, [0, 0, 1, 2]),
        ({"min_groups": 3}, [0, 1, 2, 2]),
    ):
        method = learning_method()
        assert isinstance(method.groups, LearnedGroups)
        method.groups.confusion.copy_(CONFUSION)
        regrouping_of(method, Messages(), **labels).regroup_if_due(2, Meters(torch.tensor([0, 0, 1, 2])))
        assert method.groups.of_class.tolist() == expected


def test_groups_of_the_names_stay() -> None:
    method, observer = learning_method(learns_groups=False), Messages()
    assert learned_groups(method) is None
    regrouping = regrouping_of(method, observer)
    regrouping.regroup_if_due(2, Meters(torch.tensor([0, 0, 1, 2])))
    regrouping.restore(Meters(torch.tensor([0, 0, 1, 2])))
    assert not observer.texts
    assert not method.state_dict()


def test_statistics_compare_each_step_by_the_groups_of_its_time() -> None:
    """A dog that is taken for a cat is in the right group until the group is split."""
    meters = Meters(torch.tensor([0, 0, 1, 2]))
    pseudo = PseudoLabels(torch.tensor([1]), torch.ones(1), torch.ones(1))
    result = StepResult({"a": torch.zeros(())}, pseudo_labels={"one_hot": pseudo})
    meters.add(result, torch.tensor([0]))
    meters.regroup(torch.tensor([0, 1, 2, 2]))
    meters.add(result, torch.tensor([0]))
    line = meters.line()
    assert line["pseudo/one_hot/group_accuracy"] == 0.5
    assert line["pseudo/one_hot/group_accuracy/ungrouped"] == 0.5  # at the end of the line a dog is alone
    assert line["pseudo/one_hot/group_accuracy/grouped"] is None


@pytest.mark.parametrize("name", ["semco", "semco_plus"])
def test_a_step_with_learned_groups_does_not_wait(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "make_task", lambda setting: replace(make_task(setting), learns_groups=True))
    assert steps_of(name, tmp_path, monkeypatch).counts["addmm_"] > 0
