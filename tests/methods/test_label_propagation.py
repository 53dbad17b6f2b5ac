"""Label propagation as a method: phases, weights, and what a refresh leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from semco.pseudo_labels.propagation import affinity_graph, certain_labels, diffuse
from semco.types import Outputs, Progress

Make = Callable[..., "object"]


def at(step: int) -> Progress:
    return Progress(step, 100, 10, torch.Generator())


@dataclass
class Blobs:
    """Seven tight clusters, two labelled images in each, forty unlabelled ones around them."""

    class_ids: Tensor
    truth: Tensor

    def labelled(self) -> Outputs:
        return self._around(self.class_ids, 1)

    def unlabelled(self) -> Outputs:
        return self._around(self.truth, 2)

    def _around(self, labels: Tensor, seed: int) -> Outputs:
        noise = 0.05 * torch.randn(len(labels), 7, generator=torch.Generator().manual_seed(seed))
        return Outputs(features=torch.eye(7)[labels] + noise, logits=torch.zeros(len(labels), 7))


def blobs() -> Blobs:
    return Blobs(class_ids=torch.arange(14) % 7, truth=torch.arange(40) % 7)


def test_refresh_labels_the_pool(bench: Make) -> None:
    method = bench("label_propagation", neighbours=5).method
    pool = blobs()
    method.refresh(pool, at(50))
    assert method.propagated.tolist() == pool.truth.tolist()
    assert float(method.certainty.min()) > 0.5
    # 14 labelled and 40 unlabelled: the first five classes have 8 images, the others 7.
    expected = 54 / (7 * torch.tensor([8.0] * 5 + [7.0] * 2))
    torch.testing.assert_close(method.balance, expected)


def test_certainty_is_relative_to_the_most_certain(bench: Make) -> None:
    """With neighbours beyond the clusters nothing is certain as such, but something is the most certain."""
    method = bench("label_propagation", neighbours=30, gamma=0.1).method
    pool = blobs()
    method.refresh(pool, at(50))
    features = torch.cat([pool.labelled().features, pool.unlabelled().features])
    seeds = F.pad(F.one_hot(pool.class_ids, 7).float(), (0, 0, 0, 40))
    _, weights = certain_labels(diffuse(affinity_graph(features, 30, 0.1), seeds, 0.99, 20)[14:])
    assert float(weights.max()) < 0.9
    torch.testing.assert_close(method.certainty, weights / weights.max())


def test_before_the_warm_up_is_over_it_is_supervised(bench: Make, batch: Make) -> None:
    b, plain = bench("label_propagation"), bench("supervised")
    b.method.refresh(blobs(), at(24))
    assert float(b.method.certainty.sum()) == 0
    example = batch(b.method.views, 7)
    result = b.step(example, step=24)
    assert torch.equal(result.total, plain.step(example).total)
    assert [id(view) for view in b.forward.with_gradient] == [id(example.labelled.weak[0])]


def test_losses_are_weighted_by_certainty_and_class(bench: Make, batch: Make) -> None:
    b = bench("label_propagation", lambda_u=0.5)
    generator = torch.Generator().manual_seed(5)
    b.method.propagated.copy_(torch.randint(7, (40,), generator=generator))
    b.method.certainty.copy_(torch.rand(40, generator=generator))
    b.method.balance.copy_(torch.rand(7, generator=generator))
    example = batch(b.method.views, 7)
    result = b.step(example, step=50)
    labelled, unlabelled = (b.network(v.weak[0]).logits for v in (example.labelled, example.unlabelled))
    total = 0.0
    for logits, place in zip(unlabelled, example.unlabelled_index.tolist(), strict=True):
        label = int(b.method.propagated[place])
        weight = float(b.method.certainty[place] * b.method.balance[label])
        total += weight * float(-F.log_softmax(logits, dim=0)[label].detach())
    assert float(result.losses["unlabelled"].detach()) == pytest.approx(total / 12, rel=1e-4)
    supervised = sum(  # not weighted
        float(-F.log_softmax(z, dim=0)[y].detach()) for z, y in zip(labelled, example.class_ids.tolist(), strict=True)
    )
    assert float(result.losses["supervised"].detach()) == pytest.approx(supervised / 4, rel=1e-4)
    assert float(result.total.detach()) == pytest.approx(supervised / 4 + 0.5 * total / 12, rel=1e-4)
    pseudo = result.pseudo_labels["one_hot"]
    assert torch.equal(pseudo.class_ids, b.method.propagated[example.unlabelled_index])
