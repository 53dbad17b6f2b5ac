"""Groups that change: what is collected during steps, and what happens to thresholds when they change."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from semco.methods.flexmatch import FlexMatchThreshold
from semco.methods.freematch import FreeMatchFields, FreeMatchThreshold
from semco.methods.softmatch import SoftMatchFields, SoftMatchWeights
from semco.pseudo_labels import ClassGroups, FixedThreshold, LearnedGroups, ThresholdPolicy, class_groups
from semco.pseudo_labels.learned_groups import DECAY, NONE, change_choices, save_choices
from semco.types import Outputs, Peers, Progress, PseudoLabels, Task

K, NAMES, NAMED = 4, ("a", "b", "c", "d"), torch.tensor([0, 0, 1, 2])


def progress_of(peers: Peers | None = None) -> Progress:
    return Progress(0, 1, 1, torch.Generator(), *([peers] if peers else []))


def outputs_of(logits: Tensor) -> Outputs:
    return Outputs(features=logits, logits=logits)


def random_step(
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor, dict[str, PseudoLabels]]:
    def pseudo() -> PseudoLabels:
        weights = torch.rand(6, generator=generator).round(decimals=1)
        return PseudoLabels(torch.randint(0, K, (6,), generator=generator), weights, weights)

    labelled, strong = (torch.randn(rows, K, generator=generator) for rows in (3, 6))
    return labelled, torch.randint(0, K, (3,), generator=generator), strong, {"one_hot": pseudo(), "semantic": pseudo()}


def test_the_confusion_is_what_a_slow_recount_gives() -> None:
    groups, generator, slow = LearnedGroups(NAMED, NAMES), torch.Generator().manual_seed(0), np.zeros((K, K))
    for _ in range(5):
        labelled, class_ids, strong, pseudo = random_step(generator)
        groups.observe(outputs_of(labelled), class_ids, outputs_of(strong), pseudo, progress_of())
        slow *= DECAY
        for row, given in zip(labelled.softmax(-1).tolist(), class_ids.tolist(), strict=True):
            slow[given] += row
        for head in pseudo.values():
            for row, given, weight in zip(strong.softmax(-1).tolist(), head.class_ids, head.weights, strict=True):
                slow[int(given)] += float(weight) * np.asarray(row)
    assert groups.confusion.numpy() == pytest.approx(slow, abs=1e-5)


class Twin:
    """Peers: another process with the same rows."""

    def gather(self, rows: Tensor) -> Tensor:
        return torch.cat([rows, rows])

    def mean(self, values: Tensor) -> Tensor:
        return values


def test_the_confusion_is_that_of_all_processes() -> None:
    step = random_step(torch.Generator().manual_seed(0))
    alone, both = LearnedGroups(NAMED, NAMES), LearnedGroups(NAMED, NAMES)
    for groups, progress in ((alone, progress_of()), (both, progress_of(Twin()))):
        groups.observe(outputs_of(step[0]), step[1], outputs_of(step[2]), step[3], progress)
    torch.testing.assert_close(both.confusion, 2 * alone.confusion)


def test_nothing_of_the_confusion_has_a_gradient() -> None:
    labelled, class_ids, strong, pseudo = random_step(torch.Generator().manual_seed(0))
    groups = LearnedGroups(NAMED, NAMES)
    groups.observe(outputs_of(labelled.requires_grad_()), class_ids, outputs_of(strong), pseudo, progress_of())
    assert not groups.confusion.requires_grad


def test_ids_without_a_class_have_no_score() -> None:
    scores = torch.rand(5, K).softmax(dim=-1)
    usual, learned = ClassGroups(NAMED).sum_scores(scores), LearnedGroups(NAMED, NAMES).sum_scores(scores)
    torch.testing.assert_close(learned, torch.cat([usual, torch.zeros(5, 1)], dim=1))


def test_groups_change_in_place_and_are_saved() -> None:
    groups = LearnedGroups(NAMED, NAMES)
    places = {name: buffer.data_ptr() for name, buffer in groups.named_buffers()}
    groups.change(torch.tensor([0, 1, 1, 1]), 1)
    assert places == {name: buffer.data_ptr() for name, buffer in groups.named_buffers()}
    assert groups.sizes.tolist() == [1, 3, 0, 0]
    assert groups.history.tolist() == [[NONE] * K, [0, 1, 1, 1], [NONE] * K]
    other = LearnedGroups(NAMED, NAMES)
    other.load_state_dict(groups.state_dict())
    assert other.of_class.tolist() == [0, 1, 1, 1]
    assert other.sizes.tolist() == [1, 3, 0, 0]
    assert other.named.tolist() == NAMED.tolist()


def test_groups_of_the_names_save_nothing() -> None:
    task = Task(NAMES, torch.eye(K), NAMED, torch.ones(K), 5)
    assert not class_groups(task).state_dict()
    assert type(class_groups(task)) is ClassGroups


# Groups {0, 1}, {2}, {3}, and an id that no class has, become {0}, {1, 2}, {3}.
OLD, NEW = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])
SIZES = torch.tensor([2, 1, 1, 0])


def test_freematch_passes_shares_on_to_the_classes() -> None:
    policy = FreeMatchThreshold(FreeMatchFields(), SIZES)
    policy.expected.copy_(torch.tensor([0.6, 0.1, 0.3, 0.0]))
    change_choices(policy, OLD, NEW)
    torch.testing.assert_close(policy.expected, torch.tensor([0.3, 0.4, 0.3, 0.0]))
    torch.testing.assert_close(policy.prior, torch.tensor([0.25, 0.5, 0.25, 0.0]))
    # expected / prior = 1.2, 0.8, 1.2
    torch.testing.assert_close(policy.thresholds, policy.confidence * torch.tensor([1.0, 2 / 3, 1.0, 0.0]))


def test_flexmatch_forgets_the_choice_of_a_group_that_was_split() -> None:
    policy = FlexMatchThreshold(0.9, SIZES, pool_size=4)
    policy.chosen.copy_(torch.tensor([NONE, 0, 1, 2]))
    change_choices(policy, OLD, NEW)
    assert policy.chosen.tolist() == [NONE, NONE, 1, 2]
    assert policy.sizes.tolist() == [1, 2, 1, 0]
    policy.update(torch.rand(2, 4), torch.tensor([0, 1]))
    # sigma = 0, 1/2, 1 and two images without a choice: beta = 0, 1/4, 1/2.
    torch.testing.assert_close(policy.thresholds, 0.9 * torch.tensor([0.0, 1 / 7, 1 / 3, 0.0]))


def test_softmatch_aligns_to_the_new_sizes() -> None:
    policy = SoftMatchWeights(SoftMatchFields(), SIZES)
    policy.update(torch.tensor([[0.6, 0.1, 0.3, 0.0]]), torch.tensor([0]))
    change_choices(policy, OLD, NEW)
    torch.testing.assert_close(policy.alignment.predicted(), torch.tensor([0.3, 0.4, 0.3, 0.0]))
    torch.testing.assert_close(policy.alignment.wanted, torch.tensor([0.25, 0.5, 0.25, 0.0]))
    assert policy.weights(torch.tensor([[0.3, 0.4, 0.3, 0.0]])).isfinite().all()


@pytest.mark.parametrize(
    "build",
    [
        lambda: FixedThreshold(0.5),
        lambda: FlexMatchThreshold(0.9, SIZES, pool_size=4),
        lambda: FreeMatchThreshold(FreeMatchFields(), SIZES),
        lambda: SoftMatchWeights(SoftMatchFields(), SIZES),
    ],
)
def test_a_saved_policy_has_everything_that_depends_on_the_groups(build: type[ThresholdPolicy]) -> None:
    changed, other = build(), build()
    for policy in (changed, other):
        save_choices(policy)
    scores, index = torch.rand(3, 4).softmax(dim=-1) * (SIZES > 0), torch.tensor([0, 1, 3])
    changed.update(scores, index)
    change_choices(changed, OLD, NEW)
    other.load_state_dict(changed.state_dict())
    for (name, one), (_, two) in zip(changed.named_buffers(), other.named_buffers(), strict=True):
        assert torch.equal(one, two), name
