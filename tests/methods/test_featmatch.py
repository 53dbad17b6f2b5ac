"""FeatMatch: attention and clustering against loops, losses put together by hand.

Shapes: N images, F features, K classes, P prototypes of a class.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from semco.methods.featmatch import FeatureAugmentation
from semco.pseudo_labels.prototypes import class_prototypes, cluster_means

Make = Callable[..., "object"]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def linear(layer: torch.nn.Linear, x: list[float]) -> list[float]:
    return [
        sum(w * v for w, v in zip(row, x, strict=True)) + b
        for row, b in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    ]


def slow_augmentation(part: FeatureAugmentation, x: list[float], prototypes: list[list[float]]) -> list[float]:
    taken: list[float] = []
    for embed, combine in zip(part.embed, part.combine, strict=True):
        own, others = linear(embed, x), [linear(embed, p) for p in prototypes]  # type: ignore[arg-type]
        scores = [math.exp(sum(a * b for a, b in zip(own, o, strict=True)) / math.sqrt(len(own))) for o in others]
        mean = [sum(s / sum(scores) * o[i] for s, o in zip(scores, others, strict=True)) for i in range(len(own))]
        taken += [max(0.0, v) for v in linear(combine, mean + own)]  # type: ignore[arg-type]
    return [max(0.0, a + b) for a, b in zip(x, linear(part.out, taken), strict=True)]


@pytest.mark.parametrize("heads", [1, 4])
def test_attention_against_a_loop(heads: int) -> None:
    torch.manual_seed(3)
    part = FeatureAugmentation(8, heads)
    features, prototypes = torch.randn(5, 8), torch.randn(6, 8)
    present = torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    augmented = part(features, prototypes, present).detach()
    there = prototypes[present == 1].tolist()
    expected = torch.tensor([slow_augmentation(part, x, there) for x in features.tolist()])
    torch.testing.assert_close(augmented, expected, rtol=1e-4, atol=1e-5)


def test_clusters_are_found_and_averaged() -> None:
    """Three directions of any length; k-means goes by direction, means are of the features as they are."""
    directions = torch.eye(3).repeat(10, 1)
    lengths = torch.rand(30, generator=seeded()) + 0.5
    features = directions * lengths[:, None] + 0.01 * torch.randn(30, 3, generator=seeded(1))
    found = cluster_means(features, 3, seeded(4))
    expected = torch.stack([features[k::3].mean(dim=0) for k in range(3)])
    order = found.argmax(dim=1)
    assert sorted(order.tolist()) == [0, 1, 2]
    torch.testing.assert_close(found, expected[order])


def test_few_images_stand_for_themselves() -> None:
    features = torch.randn(4, 2, generator=seeded())
    prototypes, present = class_prototypes(features, torch.tensor([0, 0, 2, 0]), 3, 5, seeded())
    assert present.sum(dim=1).tolist() == [3.0, 0.0, 1.0]
    assert torch.equal(prototypes[0, :3], features[[0, 1, 3]])
    assert torch.equal(prototypes[2, 0], features[2])
    assert float(prototypes[1].abs().sum()) == 0


def slow_clusters(rows: list[list[float]], count: int, first: int) -> list[list[float]]:
    """Farthest-first start, then Lloyd's rounds by cosine, one row at a time."""

    def unit(v: list[float]) -> list[float]:
        return [x / math.hypot(*v) for x in v]

    def dot(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    def mean(of: list[list[float]]) -> list[float]:
        return [sum(column) / len(of) for column in zip(*of, strict=True)]

    units = [unit(row) for row in rows]
    centres = [units[first]]
    while len(centres) < count:
        centres.append(min(units, key=lambda u: max(dot(u, c) for c in centres)))
    for _ in range(20):
        nearest = [max(range(count), key=lambda c: dot(u, centres[c])) for u in units]
        members = [[i for i, n in enumerate(nearest) if n == c] for c in range(count)]
        centres = [unit(mean([units[i] for i in of])) for of in members]
    return [mean([rows[i] for i in of]) for of in members]


def test_clusters_against_a_loop() -> None:
    features = torch.randn(60, 4, generator=seeded(), dtype=torch.float64)
    first = int(torch.randint(60, (), generator=seeded(7)))
    expected = torch.tensor(slow_clusters(features.tolist(), 5, first), dtype=torch.float64)
    torch.testing.assert_close(cluster_means(features, 5, seeded(7)), expected)


def test_losses_by_hand(bench: Make, batch: Make) -> None:
    b = bench("featmatch", lambda_con=0.3, lambda_feature=0.7, ramp=0.5, temperature=0.5)
    b.refresh()
    example = batch(b.method.views, 7)
    result = b.step(example, step=25)
    prototypes, present = b.method.prototypes.flatten(0, 1), b.method.present.flatten()

    def logits(features: Tensor) -> Tensor:
        return b.network.heads_from(b.method.augmentation(features, prototypes, present)).logits.detach()

    labelled, strong, weak = (
        b.network(view) for view in (example.labelled.weak[0], example.unlabelled.strong[0], example.unlabelled.weak[0])
    )
    target = (logits(weak.features) / 0.5).softmax(dim=-1)  # sharpening is a temperature
    expected = {
        "supervised": F.cross_entropy(logits(labelled.features), example.class_ids),
        "supervised_plain": F.cross_entropy(labelled.logits.detach(), example.class_ids),
        "consistency": F.cross_entropy(logits(strong.features), target),
        "consistency_plain": F.cross_entropy(strong.logits.detach(), target),
    }
    assert {k: float(v.detach()) for k, v in result.losses.items()} == pytest.approx(
        {k: float(v) for k, v in expected.items()}, rel=1e-4
    )
    ramp = 0.5  # half of it is done
    assert result.weights == pytest.approx({"consistency": 0.3 * ramp, "consistency_plain": 0.7 * ramp})


def test_prototypes_of_labelled_and_confident_images(bench: Make) -> None:
    unsure = bench("featmatch", confidence=1.0)
    unsure.refresh()
    assert unsure.method.present.sum(dim=1).tolist() == [3.0] * 7  # three labelled images of each class
    every = bench("featmatch", confidence=0.0)
    every.refresh()
    assert every.method.present.sum() == 3 * 7 + 40  # no class has more than twenty
    assert float(every.method.present.sum(dim=1).max()) <= 20
