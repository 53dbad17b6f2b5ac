"""Log lines against hand-counted examples."""

from __future__ import annotations

import math

import pytest
import torch

from semco.distributed.processes import Processes
from semco.training.statistics import DivergenceMonitor, Meters, confident_accuracy, describe_pool
from semco.types import PseudoLabels, StepResult

# Classes 0 and 1 form a group; class 2 is alone.
GROUPS = torch.tensor([0, 0, 1])


def result(loss: float = 1.0, **more: torch.Tensor) -> StepResult:
    return StepResult(losses={"supervised": torch.tensor(loss), **more}, weights={"extra": 0.5})


def pseudo(labels: list[int], mask: list[float]) -> PseudoLabels:
    return PseudoLabels(torch.tensor(labels), torch.tensor(mask), torch.ones(len(labels)))


def test_losses_are_means_over_steps_and_the_total_is_weighted() -> None:
    meters = Meters(GROUPS)
    nobody = torch.empty(0, dtype=torch.int64)
    meters.add(result(1.0, extra=torch.tensor(4.0)), nobody)
    meters.add(result(3.0, extra=torch.tensor(0.0)), nobody)
    line = meters.line()
    assert line["loss/supervised"] == 2.0
    assert line["loss/extra"] == 2.0
    assert line["loss"] == pytest.approx((1 + 2 + 3 + 0) / 2)
    assert meters.line() == {}


def test_pseudo_labels_are_judged_by_the_hidden_truth() -> None:
    #            right  wrong class, right group  wrong   not retained  truth unknown
    truth = torch.tensor([0, 1, 2, 2, -1])
    pseudo_labels = pseudo([0, 0, 1, 2, 2], [1, 1, 1, 0, 1])
    meters = Meters(GROUPS)
    step = StepResult(losses={"supervised": torch.tensor(1.0)}, pseudo_labels={"one_hot": pseudo_labels})
    meters.add(step, truth)
    line = meters.line()
    assert line["pseudo/one_hot/ratio"] == pytest.approx(4 / 5)
    assert line["pseudo/one_hot/accuracy"] == pytest.approx(1 / 3)
    assert line["pseudo/one_hot/group_accuracy"] == pytest.approx(2 / 3)
    assert line["pseudo/one_hot/ratio/grouped"] == 1.0
    assert line["pseudo/one_hot/accuracy/grouped"] == 0.5
    assert line["pseudo/one_hot/group_accuracy/grouped"] == 1.0
    assert line["pseudo/one_hot/ratio/ungrouped"] == 0.5
    assert line["pseudo/one_hot/accuracy/ungrouped"] == 0.0


def test_nothing_retained_has_no_accuracy() -> None:
    meters = Meters(GROUPS)
    step = StepResult(losses={"a": torch.tensor(0.0)}, pseudo_labels={"one_hot": pseudo([0], [0.0])})
    meters.add(step, torch.tensor([0]))
    line = meters.line()
    assert line["pseudo/one_hot/ratio"] == 0.0
    assert line["pseudo/one_hot/accuracy"] is None
    assert line["pseudo/one_hot/ratio/ungrouped"] is None


def test_sums_survive_saving() -> None:
    first, second = Meters(GROUPS), Meters(GROUPS)
    nobody = torch.empty(0, dtype=torch.int64)
    first.add(result(1.0), nobody)
    second.load(first.state(Processes()), Processes())
    for meters in (first, second):
        meters.add(result(5.0), nobody)
    assert first.line() == second.line() == {"loss": 3.0, "loss/supervised": 3.0}


def test_the_term_that_breaks_first_is_named() -> None:
    monitor = DivergenceMonitor()
    monitor.check(result(1.0, extra=torch.tensor(1.0)), 0)
    assert monitor.first_divergence() is None
    monitor.check(result(1.0, extra=torch.tensor(math.inf)), 1)
    monitor.check(result(math.nan, extra=torch.tensor(math.nan)), 2)
    assert monitor.first_divergence() == (["extra"], 1)


def test_the_surest_are_judged_apart_from_thresholds() -> None:
    """Five images count, not those of class 2 and of no known class; of the surest two one is right."""
    pseudo_labels = PseudoLabels(
        class_ids=torch.tensor([0, 1, 0, 1, 1, 2, 1]),
        weights=torch.zeros(7),
        confidence=torch.tensor([0.3, 0.9, 0.5, 0.8, 0.1, 0.99, 0.95]),
    )
    truth, counts = torch.tensor([0, 1, 1, 0, 1, 2, -1]), torch.tensor([True, True, False])
    assert confident_accuracy(pseudo_labels, truth, counts, 0.4) == 0.5
    assert confident_accuracy(pseudo_labels, truth, counts, 1.0) == pytest.approx(3 / 5)
    assert confident_accuracy(pseudo_labels, truth, counts, 0.0) is None
    described = describe_pool({"one_hot": pseudo_labels}, truth, GROUPS)["one_hot"]
    assert described["surest_accuracy/grouped"] == 1.0  # a fifth of five: image 1 alone
    assert described["ratio"] == 0.0
