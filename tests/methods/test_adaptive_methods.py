"""FlexMatch, FreeMatch and SoftMatch as methods, and as thresholds of both heads of SemCo+."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from semco.config import Config
from semco.errors import UserError
from semco.methods.flexmatch import FlexMatchThreshold
from semco.methods.freematch import FreeMatchThreshold
from semco.methods.softmatch import SoftMatchWeights

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
