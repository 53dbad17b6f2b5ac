"""AdaMatch on numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from scripted import ScriptedForward, at, log_table, make_batch, make_task
from torch import Tensor

from semco.methods.adamatch import AdaMatch, AdaMatchConfig, interpolate_randomly
from semco.types import Outputs

LABELLED = [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2]]
LABELLED_STRONG = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]
# Two images of the first class, and one that would be of the first class if predictions were not aligned.
WEAK = [[0.9, 0.05, 0.05], [0.7, 0.2, 0.1], [0.5, 0.4, 0.1]]
STRONG = [[0.6, 0.2, 0.2], [0.2, 0.7, 0.1], [0.1, 0.8, 0.1]]


def method_of(**fields: float) -> AdaMatch:
    return AdaMatch(AdaMatchConfig(**fields), make_task(3)).double()


def example_batch() -> object:
    return make_batch([0, 1], log_table(LABELLED), [log_table(WEAK)], [log_table(STRONG)], [log_table(LABELLED_STRONG)])


def test_a_step_by_hand() -> None:
    # With a decay of 0 the mean prediction on labelled images is that of this step.
    method = method_of(decay=0.0, warmup=False, lambda_u=2.0)
    result = method.compute(example_batch(), ScriptedForward(), at(25))
    expected, predicted = (0.5, 0.35, 0.15), (0.7, 0.65 / 3, 0.25 / 3)
    ratio = [(e + 1e-6) / (p + 1e-6) for e, p in zip(expected, predicted, strict=True)]
    aligned = [[q * r for q, r in zip(row, ratio, strict=True)] for row in WEAK]
    aligned = [[value / sum(row) for value in row] for row in aligned]
    threshold = 0.9 * (0.8 + 0.6) / 2
    pseudo = result.pseudo_labels["one_hot"]
    assert pseudo.class_ids.tolist() == [0, 0, 1]
    assert pseudo.confidence.tolist() == pytest.approx([max(row) for row in aligned])
    assert pseudo.weights.tolist() == [float(max(row) >= threshold) for row in aligned] == [1, 0, 0]
    assert method.threshold.item() == pytest.approx(threshold)
    assert result.losses["supervised"].item() == pytest.approx(-(math.log(0.8) + math.log(0.6)) / 2)
    assert result.losses["supervised_strong"].item() == pytest.approx(math.log(2))
    assert result.losses["unlabelled"].item() == pytest.approx(-math.log(0.6) / 3)
    # A quarter of the run is half of the ramp over half of the run.
    assert result.weights == pytest.approx({"supervised": 0.5, "supervised_strong": 0.5, "unlabelled": 2.0 * 0.5})


def test_the_mean_on_labelled_images_is_a_moving_average() -> None:
    method = method_of(decay=0.9, warmup=False)
    for step in range(2):
        method.compute(example_batch(), ScriptedForward(), at(step))
    mean = [1 / 3] * 3
    for _ in range(2):
        mean = [0.9 * old + 0.1 * new for old, new in zip(mean, (0.5, 0.35, 0.15), strict=True)]
    assert method.expected.tolist() == pytest.approx(mean)


def test_final_pseudo_labels_are_those_of_the_last_step() -> None:
    method = method_of()
    result = method.compute(example_batch(), ScriptedForward(), at(3))
    weak = log_table(WEAK)
    final = method.pseudo_labels(Outputs(features=weak, logits=weak), torch.arange(3))["one_hot"]
    assert torch.equal(final.weights, result.pseudo_labels["one_hot"].weights)
    assert torch.equal(final.confidence, result.pseudo_labels["one_hot"].confidence)


class TwoNormalisations(ScriptedForward):
    """The logits of labelled images are larger by 1 in a batch of their own."""

    def without_statistics(self, **views: Tensor) -> dict[str, Outputs]:
        return {name: Outputs(features=view, logits=view + 1) for name, view in views.items()}


def test_labelled_logits_lie_between_those_of_both_batches() -> None:
    joint, alone = torch.zeros(400, 3), torch.ones(400, 3)
    mixed = interpolate_randomly(joint, alone, torch.Generator().manual_seed(0))
    assert 0 <= float(mixed.min()) < 0.01 < 0.99 < float(mixed.max()) <= 1
    assert float(mixed.mean()) == pytest.approx(0.5, abs=0.03)
    assert float(mixed.std(dim=-1).min()) > 0  # each logit has its own weight


def test_the_losses_use_the_logits_of_both_batches() -> None:
    plain = method_of().compute(example_batch(), ScriptedForward(), at(0))
    mixed = method_of().compute(example_batch(), TwoNormalisations(), at(0))
    labelled = interpolate_randomly(log_table(LABELLED), log_table(LABELLED) + 1, at(0).generator)
    expected = torch.nn.functional.cross_entropy(labelled, torch.tensor([0, 1]))
    assert mixed.losses["supervised"].item() == pytest.approx(expected.item())
    assert mixed.losses["supervised"].item() != pytest.approx(plain.losses["supervised"].item(), rel=1e-3)
