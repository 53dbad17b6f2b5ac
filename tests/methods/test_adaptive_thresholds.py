"""FlexMatch, FreeMatch and SoftMatch against numbers worked out by hand and slow loops.

Shapes: U unlabelled images, C choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from semco.config import Config
from semco.errors import UserError
from semco.methods.flexmatch import FlexMatchThreshold, flexible_thresholds
from semco.methods.freematch import FreeMatchFields, FreeMatchThreshold, fairness_loss
from semco.methods.semco_plus import SemCoPlus
from semco.methods.softmatch import SoftMatchConfig, SoftMatchWeights, truncated_gaussian
from semco.pseudo_labels import ThresholdPolicy
from semco.types import Progress

ONES = torch.ones(3)


ALONE = Progress(0, 1, 1, torch.Generator())


def freematch(decay: float, sizes: Tensor, warmup: bool = False) -> FreeMatchThreshold:
    return FreeMatchThreshold(FreeMatchFields(decay=decay, warmup=warmup), sizes)


def softmatch(decay: float, num_classes: int, warmup: bool = False) -> SoftMatchWeights:
    return SoftMatchWeights(SoftMatchConfig(decay=decay, warmup=warmup), num_classes)


def step(policy: ThresholdPolicy, scores: list[list[float]], index: list[int]) -> list[float]:
    """Update with scores (U, C) that sum to 1, then return their weights."""
    policy.update(torch.tensor(scores), torch.tensor(index))
    return policy.weights(torch.tensor(scores)).tolist()


def test_flexmatch_on_a_made_up_history() -> None:
    # Of 20 images 8 were given class 0, 4 class 1, none class 2, and 8 nothing: beta = 1, 1/2, 0.
    chosen = torch.tensor([0] * 8 + [1] * 4 + [-1] * 8)
    thresholds = flexible_thresholds(chosen, 3, 0.9)
    torch.testing.assert_close(thresholds, torch.tensor([0.9, 0.9 * 0.5 / 1.5, 0.0]))
    # While most images were given nothing they are the measure (warm-up): beta = 2/10, 1/10, 0.
    early = flexible_thresholds(torch.tensor([0, 0, 1] + [-1] * 10), 3, 0.9)
    torch.testing.assert_close(early, torch.tensor([0.9 * 0.2 / 1.8, 0.9 * 0.1 / 1.9, 0.0]))


def test_flexmatch_records_confident_choices_and_forgets_nothing() -> None:
    policy = FlexMatchThreshold(0.9, 3, 5)
    assert step(policy, [[0.95, 0.03, 0.02], [0.4, 0.5, 0.1]], [3, 1]) == [1.0, 1.0]  # thresholds are 0 at first
    assert policy.chosen.tolist() == [-1, -1, -1, 0, -1]
    # One image of class 0 against four of none: beta = 1/4, a threshold of .9 / 7 = .1286 for class 0.
    step(policy, [[0.2, 0.7, 0.1], [0.02, 0.02, 0.96]], [3, 0])
    torch.testing.assert_close(policy.thresholds, torch.tensor([0.9 / 7, 0.0, 0.0]))
    assert policy.chosen.tolist() == [2, -1, -1, 0, -1]  # image 3 keeps its last confident choice
    # Counts 1, 0, 1 against three of none: beta = 1/3, thresholds .9 / 5.
    assert step(policy, [[0.98, 0.01, 0.01]], [0]) == [1.0]
    torch.testing.assert_close(policy.thresholds, torch.tensor([0.18, 0.0, 0.18]))
    assert policy.chosen.tolist() == [0, -1, -1, 0, -1]
    assert policy.per_image_buffers == ("chosen",)


def test_flexmatch_thresholds_are_compared_by_class() -> None:
    policy = FlexMatchThreshold(0.9, 3, 20)
    policy.chosen.copy_(torch.tensor([0] * 8 + [1] * 4 + [-1] * 8))  # thresholds .9, .3, 0
    scores = [[0.89, 0.1, 0.01], [0.05, 0.9, 0.05], [0.3, 0.3, 0.4], [0.9001, 0.05, 0.0499]]
    assert step(policy, scores, [0, 1, 2, 3]) == [0.0, 1.0, 1.0, 1.0]


def test_freematch_averages_by_hand() -> None:
    policy = freematch(0.9, torch.ones(2))
    torch.testing.assert_close(policy.thresholds, torch.tensor([0.5, 0.5]))
    # Mean confidence (.8 + .6 + .7) / 3 = .7; mean scores (2.1 / 3, .9 / 3); every choice is class 0.
    mask = step(policy, [[0.8, 0.2], [0.6, 0.4], [0.7, 0.3]], [0, 1, 2])
    assert mask == [1.0, 1.0, 1.0]
    assert float(policy.confidence) == pytest.approx(0.9 * 0.5 + 0.1 * 0.7)
    torch.testing.assert_close(policy.expected, torch.tensor([0.52, 0.48]))
    torch.testing.assert_close(policy.frequency, torch.tensor([0.55, 0.45]))
    torch.testing.assert_close(policy.thresholds, torch.tensor([0.52, 0.52 * 0.48 / 0.52]))
    # Scores of the second step: confidence .55 / .45 around a threshold that has moved on.
    mask = step(policy, [[0.51, 0.49], [0.49, 0.51]], [0, 1])
    tau = 0.9 * 0.52 + 0.1 * 0.51
    expected = [0.9 * 0.52 + 0.1 * 0.5, 0.9 * 0.48 + 0.1 * 0.5]
    assert float(policy.confidence) == pytest.approx(tau)
    assert mask == [float(tau <= 0.51), float(expected[1] / expected[0] * tau <= 0.51)] == [0.0, 1.0]


def test_statistics_follow_faster_at_first_when_warmed_up() -> None:
    """The n-th step weighs 9 / (9 + n), and never less than 1 - decay: 9/10, 9/11, then 0.8."""
    free = freematch(0.2, torch.ones(2), warmup=True)
    soft = softmatch(0.2, 2, warmup=True)
    confidence, mean = 0.5, 0.5
    for score, weight in ((0.9, 9 / 10), (0.7, 9 / 11), (0.6, 0.8), (0.8, 0.8)):
        scores = [[score, 1 - score], [1 - score, score]]  # even, so that alignment changes nothing
        step(free, scores, [0, 1])
        step(soft, scores, [0, 1])
        confidence += weight * (score - confidence)
        mean += weight * (score - mean)
        assert float(free.confidence) == pytest.approx(confidence, rel=1e-5)
        assert float(soft.mean) == pytest.approx(mean, rel=1e-5)


def test_weights_change_nothing() -> None:
    for policy in (freematch(0.5, ONES), softmatch(0.5, 3), FlexMatchThreshold(0.5, 3, 4)):
        before = {name: value.clone() for name, value in policy.state_dict().items()}
        policy.weights(torch.tensor([[0.95, 0.03, 0.02]]))
        assert all(torch.equal(before[name], value) for name, value in policy.state_dict().items())
        step(policy, [[0.95, 0.03, 0.02]], [1])
        assert not all(torch.equal(before[name], value) for name, value in policy.state_dict().items())


def test_freematch_measures_groups_against_their_sizes() -> None:
    policy = freematch(0.999, torch.tensor([3, 1]))
    torch.testing.assert_close(policy.expected, torch.tensor([0.75, 0.25]))
    # A head that knows nothing has learnt no group better than another.
    torch.testing.assert_close(policy.thresholds, torch.tensor([0.75, 0.75]))


def slow_fairness(strong: list[list[float]], mask: list[float], expected: list[float], frequency: list[float]) -> float:
    kept = [row for row, m in zip(strong, mask, strict=True) if m]
    if not kept:
        return 0.0
    classes = range(len(expected))
    target = [expected[c] / frequency[c] for c in classes]
    mean = [sum(row[c] for row in kept) / len(kept) for c in classes]
    histogram = [sum(row.index(max(row)) == c for row in kept) / len(kept) for c in classes]
    ratio = [mean[c] / histogram[c] if histogram[c] else 0.0 for c in classes]
    return sum(target[c] / sum(target) * math.log(ratio[c] / sum(ratio)) for c in classes if histogram[c])


@pytest.mark.parametrize("kept", [[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
def test_fairness_loss_against_a_loop(kept: list[float]) -> None:
    strong = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.7, 0.2], [0.5, 0.4, 0.1]], requires_grad=True)
    expected, frequency = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.6, 0.1, 0.3])
    loss = fairness_loss(strong, torch.tensor(kept).float(), expected, frequency, ALONE)
    slow = slow_fairness(strong.tolist(), kept, expected.tolist(), frequency.tolist())
    assert float(loss.detach()) == pytest.approx(slow, abs=1e-6)
    loss.backward()
    assert strong.grad is not None
    assert torch.isfinite(strong.grad).all()
    assert all(float(row.abs().sum()) == 0 for row, m in zip(strong.grad, kept, strict=True) if not m)


def test_fairness_loss_by_hand() -> None:
    strong = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.4, 0.6]])
    # Mean (3.1, .9) / 4 over histogram (3, 1) / 4: 31 / 30 and 9 / 10, so 31 / 58 and 27 / 58.
    # p~ / h~ is (5 / 9, 5), so .1 and .9.
    loss = fairness_loss(strong, torch.ones(4), torch.tensor([0.5, 0.5]), torch.tensor([0.9, 0.1]), ALONE)
    assert float(loss) == pytest.approx(0.1 * math.log(31 / 58) + 0.9 * math.log(27 / 58), rel=1e-5)


def test_softmatch_gaussian_by_hand() -> None:
    # Mean .8, variance .04, so a deviation of .2 / 2 = .1: one deviation below is exp(-1/2), two exp(-2).
    weights = truncated_gaussian(torch.tensor([0.6, 0.7, 0.8, 0.95]), torch.tensor(0.8), torch.tensor(0.04))
    torch.testing.assert_close(weights, torch.tensor([math.exp(-2), math.exp(-0.5), 1.0, 1.0]))
    same = truncated_gaussian(torch.tensor([0.5, 0.5]), torch.tensor(0.5), torch.tensor(0.0))
    assert same.tolist() == [1.0, 1.0]


def test_softmatch_averages_by_hand() -> None:
    policy = softmatch(0.9, 2)
    # Mean scores stay even, so that alignment changes nothing: confidences .9, .7, .6, .6 over the two classes.
    scores = [[0.9, 0.1], [0.3, 0.7], [0.4, 0.6], [0.4, 0.6]]
    mask = step(policy, scores, [0, 1, 2, 3])
    mean, variance = 0.7, (0.04 + 0 + 0.01 + 0.01) / 3
    mu, sigma2 = 0.9 * 0.5 + 0.1 * mean, 0.9 + 0.1 * variance
    assert float(policy.mean) == pytest.approx(mu, rel=1e-5)
    assert float(policy.variance) == pytest.approx(sigma2, rel=1e-5)
    assert mask == pytest.approx([1.0, 1.0, 1.0, 1.0])
    low = step(policy, [[0.5, 0.5], [0.5, 0.5]], [0, 1])
    mu, sigma2 = 0.9 * mu + 0.05, 0.9 * sigma2
    assert low == pytest.approx([math.exp(-((mu - 0.5) ** 2) / (2 * sigma2 / 4))] * 2, rel=1e-4)


def test_softmatch_aligns_before_it_weighs() -> None:
    """A class predicted all the time counts for less than one that is rarely predicted, at the same confidence."""
    policy = softmatch(0.5, 2)
    for _ in range(150):  # more than are remembered
        step(policy, [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.2, 0.8]], [0, 1, 2, 3])
    # The mean score is (.725, .275): (.9, .1) becomes (.9/.725, .1/.275) normalised, and so on.
    often = (0.9 / 0.725) / (0.9 / 0.725 + 0.1 / 0.275)
    rare = (0.8 / 0.275) / (0.8 / 0.275 + 0.2 / 0.725)
    assert float(policy.mean) == pytest.approx((3 * often + rare) / 4, abs=1e-4)
    weights = step(policy, [[0.85, 0.15], [0.15, 0.85]], [0, 1])
    assert weights[0] < weights[1] == 1.0


def test_the_policy_of_the_semantic_head_sees_groups(bench: object, batch: object) -> None:
    """Seven classes, two of them in one group: its scores are of six groups and sum to 1."""
    b = bench("semco_plus")  # type: ignore[operator]
    assert isinstance(b.method, SemCoPlus)
    seen: list[Tensor] = []
    b.method.semantic_policy.update = lambda scores, _index: seen.append(scores)
    b.step(batch(b.method.views, 7))  # type: ignore[operator]
    assert seen[0].shape == (12, 6)
    torch.testing.assert_close(seen[0].sum(dim=-1), torch.ones(12))


@pytest.mark.parametrize("policy", [FlexMatchThreshold(0.9, 3, 9), freematch(0.9, ONES), softmatch(0.9, 3)])
def test_what_a_policy_learns_is_saved(policy: ThresholdPolicy) -> None:
    import copy

    fresh = copy.deepcopy(policy)
    scores = [[0.95, 0.03, 0.02], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]
    step(policy, scores, [0, 4, 7])
    assert any(not torch.equal(a, b) for a, b in zip(policy.buffers(), fresh.buffers(), strict=True))
    fresh.load_state_dict(policy.state_dict())
    assert step(fresh, scores, [0, 4, 8]) == step(policy, scores, [0, 4, 8])


Make = Callable[..., "object"]
POLICIES = {"flexmatch": FlexMatchThreshold, "freematch": FreeMatchThreshold, "softmatch": SoftMatchWeights}
every_policy = pytest.mark.parametrize("name", sorted(POLICIES))


@every_policy
def test_a_method_has_its_policy(name: str, bench: Make) -> None:
    assert type(bench(name).method.policy) is POLICIES[name]


def test_every_sample_counts_at_first(bench: Make, batch: Make) -> None:
    """An untrained network is never confident at .95; the adaptive rules learn from it all the same."""
    fixed = bench("fixmatch")
    example = batch(fixed.method.views, 7)
    assert float(fixed.step(example).metrics["mask_one_hot"]) == 0
    for name in POLICIES:
        assert float(bench(name).step(example).metrics["mask_one_hot"]) > 0.2


def test_both_heads_of_semco_plus_follow_their_policy(bench: Make, batch: Make) -> None:
    b = bench("semco_plus")
    heads = (b.method.one_hot_policy, b.method.semantic_policy)
    assert [type(policy) for policy in heads] == [FreeMatchThreshold] * 2
    before = [{k: v.clone() for k, v in policy.state_dict().items()} for policy in heads]
    result = b.step(batch(b.method.views, 7))
    for policy, old in zip(heads, before, strict=True):
        changed = [key for key, value in policy.state_dict().items() if not torch.equal(value, old[key])]
        assert changed
    assert float(result.metrics["mask_semantic"]) > 0
    assert {"fairness_one_hot", "fairness_semantic"} <= result.losses.keys()
    result.total.backward()


def test_groups_are_what_the_semantic_policy_counts(bench: Make) -> None:
    """Seven classes, two of them in one group: six choices, the first of two classes."""
    b = bench("semco_plus")
    assert b.method.semantic_policy.prior.tolist() == pytest.approx([2 / 7, *[1 / 7] * 5])
    assert b.method.one_hot_policy.prior.tolist() == pytest.approx([1 / 7] * 7)
    fixed = bench("semco_plus", thresholds="fixed").method
    assert (fixed.semantic_policy.threshold, fixed.one_hot_policy.threshold) == (0.9, 0.95)


def test_the_fairness_loss_has_its_weight(bench: Make, batch: Make) -> None:
    results = {}
    for weight in (0.0, 0.5):
        b = bench("freematch", lambda_f=weight, warmup=False)  # all are retained
        results[weight] = b.step(batch(b.method.views, 7))
    fairness = float(results[0.5].losses["fairness"].detach())
    assert fairness < 0
    difference = float((results[0.5].total - results[0.0].total).detach())
    assert difference == pytest.approx(0.5 * fairness, rel=1e-4)


def test_pseudo_labels_can_be_weighted_by_confidence(bench: Make, batch: Make) -> None:
    """By the square of the mean confidence: half of it 1/7, from before the first step, half from the batch."""
    results = {}
    for weight in ("one", "confidence"):
        b = bench("freematch", weight=weight, warmup=False, decay=0.5)
        example = batch(b.method.views, 7)
        results[weight] = b.step(example)
    full, weighted = results["one"], results["confidence"]
    confidences = [max(row) for row in b.network(example.unlabelled.weak[0]).logits.softmax(dim=-1).tolist()]
    factor = ((1 / 7 + sum(confidences) / len(confidences)) / 2) ** 2
    assert float(full.losses["unlabelled"].detach()) > 0
    assert float(weighted.losses["unlabelled"].detach()) == pytest.approx(
        factor * float(full.losses["unlabelled"].detach()), rel=1e-4
    )
    assert torch.equal(weighted.losses["supervised"], full.losses["supervised"])
    assert torch.equal(weighted.metrics["mask_one_hot"], full.metrics["mask_one_hot"])  # the weight is not in it


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (
            {"name": "semco_plus", "thresholds": "flex"},
            r"method.thresholds.rule = 'flex': input should be one of 'fixed', 'freematch'",
        ),
        ({"name": "semco_plus", "thresholds": {"rule": "freematch", "tau_e": 0.9}}, "unknown config key 'method.thres"),
        (
            {"name": "semco_plus", "thresholds": {"tau_o": 0.9}},
            r"Known keys of method.thresholds: decay, lambda_f, rule",
        ),
        (
            {"name": "semco_plus", "thresholds": {"rule": "fixed", "weight": "one"}},
            "keys of method.thresholds: rule, t",
        ),
        ({"name": "freematch", "tau": 0.9}, "unknown config key 'method.tau'"),
        ({"name": "fixmatch", "decay": 0.9}, "unknown config key 'method.decay'"),
        ({"name": "flexmatch", "thresholds": "fixed"}, "unknown config key 'method.thresholds'"),
    ],
)
def test_fields_of_another_rule_are_refused(method: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Config.parse({"method": method})


def test_a_rule_can_be_given_by_its_name() -> None:
    by_name, by_section = (
        Config.parse({"method": {"name": "semco_plus", "thresholds": rule}}) for rule in ("fixed", {"rule": "fixed"})
    )
    assert by_name == by_section
    assert Config.parse({"method": {"thresholds": {"decay": 0.5}}}).method.thresholds.rule == "freematch"  # type: ignore[attr-defined]
