"""ProtoCon against a plain loop."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from semco.types import Outputs

Make = Callable[..., "object"]


def slow_soft_cross_entropy(logits: list[float], target: list[float]) -> float:
    total = math.log(sum(math.exp(z) for z in logits))
    return sum(t * (total - z) for t, z in zip(target, logits, strict=True))


def prepared(bench: Make, batch: Make, **fields: float) -> object:
    """A method after two passes over parts of the pool, so that clusters and prototypes have something to say."""
    b = bench("protocon", clusters=4, **fields)
    for seed in range(6):
        b.step(batch(b.method.views, 7, seed=seed + 20), 50)
        if seed % 3 == 2:
            b.refresh(50)
    return b


def test_losses_against_a_loop(bench: Make, batch: Make) -> None:
    b = prepared(bench, batch, tau=0.3, alpha=0.6, temperature=0.5, lambda_u=0.5, lambda_p=2.0, lambda_c=3.0)
    m, example = b.method, batch(b.method.views, 7)
    prior, centre, prototypes = m.prior.tolist(), m.centre.tolist(), m.prototypes.vectors.tolist()
    views = (example.labelled.weak[0], example.unlabelled.weak[0], example.unlabelled.strong[0])
    outputs = [b.network(view) for view in views]
    q_x, q_w, q_s = (F.normalize(m.project(out.features), dim=-1).tolist() for out in outputs)
    z_x, z_w, z_s = (out.logits.tolist() for out in outputs)
    cluster = (torch.tensor(q_w) @ m.clusters.centres.T + m.clusters.duals).argmax(dim=-1).tolist()
    cluster_labels = m.clusters.labels.tolist()
    result = b.step(example, 50)
    new_prior = m.prior.tolist()

    def similarities(q: list[float]) -> list[float]:
        return [sum(a * c for a, c in zip(q, row, strict=True)) / 0.5 for row in prototypes]

    unlabelled = prototypical = consistency = 0.0
    retained = 0
    for i in range(12):
        powers = [math.exp(z - 0.5 * math.log(p)) for z, p in zip(z_w[i], prior, strict=True)]
        own = [p / sum(powers) for p in powers]
        target = [0.6 * p + 0.4 * z for p, z in zip(own, cluster_labels[cluster[i]], strict=True)]
        sharp = [math.exp((q - c) * 5 / 0.5) for q, c in zip(q_w[i], centre, strict=True)]
        if max(target) >= 0.3:
            retained += 1
            debiased = [z + 0.5 * math.log(p) for z, p in zip(z_s[i], new_prior, strict=True)]
            unlabelled += slow_soft_cross_entropy(debiased, target)
            prototypical += slow_soft_cross_entropy(similarities(q_s[i]), target)
        else:
            consistency += slow_soft_cross_entropy([q / 0.5 for q in q_s[i]], [p / sum(sharp) for p in sharp])
    labels = [[float(k == y) for k in range(7)] for y in example.class_ids.tolist()]
    supervised = sum(slow_soft_cross_entropy(z, y) for z, y in zip(z_x, labels, strict=True)) / 4
    labelled = sum(slow_soft_cross_entropy(similarities(q), y) for q, y in zip(q_x, labels, strict=True)) / 4
    expected = {
        "supervised": supervised,
        "unlabelled": unlabelled / 12,
        "prototypes": labelled + prototypical / 12,
        "consistency": consistency / 12,
    }
    assert 0 < retained < 12
    assert len(set(map(tuple, cluster_labels))) > 1
    measured = {name: float(loss.detach()) for name, loss in result.losses.items()}
    assert measured == pytest.approx(expected, rel=1e-3)
    assert dict(result.weights) == {"unlabelled": 0.5, "prototypes": 2.0, "consistency": 3.0}
    assert float(result.metrics["mask_one_hot"]) == pytest.approx(retained / 12)


@pytest.mark.parametrize("steps", [(19, 20), (49, 50)])
def test_clusters_have_no_say_at_first(steps: tuple[int, int], bench: Make, batch: Make) -> None:
    # Steps of 12 images from a pool of 40: step 20 begins the seventh pass, and step 50 the second half of the run.
    b = prepared(bench, batch, warm_up_passes=6 if steps[1] == 20 else 100)
    weak = batch(b.method.views, 7)
    logits = b.network(weak.unlabelled.weak[0]).logits.detach()
    own = (logits - 0.5 * b.method.prior.log()).softmax(dim=-1).amax(dim=-1)
    early, late = (b.copy().step(weak, step).pseudo_labels["one_hot"].confidence for step in steps)
    torch.testing.assert_close(early, own)
    assert not torch.allclose(late, own)


def test_statistics_of_a_step_by_hand(bench: Make, batch: Make) -> None:
    b = bench("protocon", tau=0.0)
    example = batch(b.method.views, 7)
    result = b.step(example)
    m = b.method
    weak = b.network(example.unlabelled.weak[0])
    labelled = b.network(example.labelled.weak[0])
    # The first step has a weight of 9 / (9 + 1).
    torch.testing.assert_close(m.prior, (0.1 / 7 + 0.9 * weak.logits.softmax(dim=-1).mean(dim=0)).detach())
    targets = (F.normalize(m.project(weak.features), dim=-1) * 5 / 0.1).softmax(dim=-1)
    torch.testing.assert_close(m.centre, 0.1 * targets.mean(dim=0).detach())
    sums = torch.zeros(7, 64)
    class_ids = [*example.class_ids.tolist(), *result.pseudo_labels["one_hot"].class_ids.tolist()]
    for row, y in zip(torch.cat([labelled.features, weak.features]), class_ids, strict=True):
        sums[y] += F.normalize(m.project(row), dim=-1).detach()
    torch.testing.assert_close(m.prototypes.sums, sums)
    assert m.clusters.class_ids[example.unlabelled_index].tolist() == class_ids[4:]
    assert int((m.clusters.class_ids >= 0).sum()) == 12
    b.refresh()
    torch.testing.assert_close(m.prototypes.vectors, F.normalize(sums, dim=-1))


def test_images_below_the_threshold_are_not_in_prototypes(bench: Make, batch: Make) -> None:
    b = bench("protocon", tau=1.0)
    example = batch(b.method.views, 7)
    b.step(example)
    is_added = b.method.prototypes.sums.abs().sum(dim=-1) > 0
    assert is_added.nonzero().flatten().tolist() == sorted(set(example.class_ids.tolist()))


def test_final_pseudo_labels_are_refined(bench: Make, batch: Make) -> None:
    b = prepared(bench, batch, alpha=0.0, tau=0.5)
    example = batch(b.method.views, 7)
    weak = b.network(example.unlabelled.weak[0])
    final = b.method.pseudo_labels(Outputs(weak.features, weak.logits), example.unlabelled_index)["one_hot"]
    q = F.normalize(b.method.project(weak.features), dim=-1)
    _, cluster = b.method.clusters.assign(q)
    torch.testing.assert_close(final.confidence, b.method.clusters.labels[cluster].amax(dim=-1))
    assert final.weights.tolist() == (final.confidence >= 0.5).float().tolist()


def test_the_projector_is_trained_after_a_first_pass(bench: Make, batch: Make) -> None:
    """A pass is 40 / 12 steps, and a tenth of the run ten steps."""
    b = bench("protocon", lambda_p=2.0, lambda_c=3.0)
    weights = [b.step(batch(b.method.views, 7), step).weights for step in (0, 3, 4)]
    assert [w["prototypes"] for w in weights] == [0.0, 0.0, 2.0]
    assert [w["consistency"] for w in weights] == [0.0, 0.0, 3.0]


def test_a_small_pool_has_fewer_clusters(bench: Make) -> None:
    assert len(bench("protocon").method.clusters.centres) == 4  # 40 images in the pool
    assert len(bench("protocon", clusters=3).method.clusters.centres) == 3
