"""FlexMatch, FreeMatch and SoftMatch as methods of their own, and in both heads of SemCo."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from semco.config import Config
from semco.errors import UserError
from semco.methods.fixmatch import FixMatch
from semco.pseudo_labels import FlexMatchThreshold, FreeMatchThreshold, SoftMatchWeights

Make = Callable[..., "object"]
POLICIES = {"flexmatch": FlexMatchThreshold, "freematch": FreeMatchThreshold, "softmatch": SoftMatchWeights}
every_policy = pytest.mark.parametrize("name", sorted(POLICIES))


@every_policy
def test_a_method_is_fixmatch_with_its_policy(name: str, bench: Make, batch: Make) -> None:
    by_name, by_field = bench(name), bench("fixmatch", thresholds=name)
    assert isinstance(by_name.method, FixMatch)
    assert type(by_name.method.policy) is POLICIES[name]
    for step in range(3):
        example = batch(by_name.method.views, 7, seed=step)
        one, other = by_name.step(example, step), by_field.step(example, step)
        assert torch.equal(one.total, other.total)
        assert torch.equal(one.pseudo_labels["one_hot"].mask, other.pseudo_labels["one_hot"].mask)


def test_every_sample_counts_at_first(bench: Make, batch: Make) -> None:
    """An untrained network is never confident at .95; the adaptive rules learn from it all the same."""
    fixed = bench("fixmatch")
    example = batch(fixed.method.views, 7)
    assert float(fixed.step(example).metrics["mask_one_hot"]) == 0
    for name in POLICIES:
        assert float(bench(name).step(example).metrics["mask_one_hot"]) > 0.2


@every_policy
def test_both_heads_of_semco_follow_their_policy(name: str, bench: Make, batch: Make) -> None:
    b = bench("semco", thresholds=name)
    heads = (b.method.one_hot_policy, b.method.semantic_policy)
    assert [type(policy) for policy in heads] == [POLICIES[name]] * 2
    before = [{k: v.clone() for k, v in policy.state_dict().items()} for policy in heads]
    result = b.step(batch(b.method.views, 7))
    for policy, old in zip(heads, before, strict=True):
        changed = [key for key, value in policy.state_dict().items() if not torch.equal(value, old[key])]
        assert changed or name == "flexmatch"  # nobody is confident enough to be recorded yet
    assert float(result.metrics["mask_semantic"]) > 0
    fairness = {"fairness_one_hot", "fairness_semantic"}
    assert fairness & result.losses.keys() == (fairness if name == "freematch" else set())
    result.total.backward()


def test_groups_are_what_the_semantic_policy_counts(bench: Make) -> None:
    """Seven classes, two of them in one group: six choices, the first of two classes."""
    b = bench("semco", thresholds="flexmatch")
    assert b.method.semantic_policy.sizes.tolist() == [2, 1, 1, 1, 1, 1]
    assert b.method.one_hot_policy.sizes.tolist() == [1] * 7
    assert b.method.semantic_policy.threshold == 0.9
    assert b.method.one_hot_policy.threshold == 0.95


def test_the_fairness_loss_has_its_weight(bench: Make, batch: Make) -> None:
    results = {}
    for weight in (0.0, 0.5):
        b = bench("freematch", lambda_f=weight, threshold_warmup=False)  # all are retained
        results[weight] = b.step(batch(b.method.views, 7))
    fairness = float(results[0.5].losses["fairness"].detach())
    assert fairness < 0
    difference = float((results[0.5].total - results[0.0].total).detach())
    assert difference == pytest.approx(0.5 * fairness, rel=1e-4)


def test_pseudo_labels_weigh_less_on_demand(bench: Make, batch: Make) -> None:
    """By the square of the mean confidence: half of it 1/7, from before the first step, half from the batch."""
    results = {}
    for trust in ("full", "confidence"):
        b = bench("freematch", trust=trust, threshold_warmup=False, threshold_decay=0.5)
        example = batch(b.method.views, 7)
        results[trust] = b.step(example)
    full, weighed = results["full"], results["confidence"]
    confidences = [max(row) for row in b.network(example.unlabelled.weak[0]).logits.softmax(dim=-1).tolist()]
    weight = ((1 / 7 + sum(confidences) / len(confidences)) / 2) ** 2
    assert float(full.losses["unlabelled"].detach()) > 0
    assert float(weighed.losses["unlabelled"].detach()) == pytest.approx(
        weight * float(full.losses["unlabelled"].detach()), rel=1e-4
    )
    assert torch.equal(weighed.losses["supervised"], full.losses["supervised"])
    assert torch.equal(weighed.metrics["mask_one_hot"], full.metrics["mask_one_hot"])  # retained is told as it is


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ({"name": "semco", "scoring": "reference", "thresholds": "freematch"}, "use scoring 'paper'"),
        ({"name": "semco", "scoring": "reference", "thresholds": "softmatch"}, "use scoring 'paper'"),
        (
            {"name": "fixmatch", "thresholds": "flex"},
            "input should be 'fixed', 'flexmatch', 'freematch' or 'softmatch'",
        ),
        ({"name": "flexmatch", "thresholds": "fixed"}, "input should be 'flexmatch'"),
    ],
)
def test_bad_fields(method: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Config.parse({"method": method})
    assert Config.parse({"method": {"name": "semco", "scoring": "reference", "thresholds": "flexmatch"}})
