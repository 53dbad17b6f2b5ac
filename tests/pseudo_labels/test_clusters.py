"""Online constrained K-means, by hand and against what it promises."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from semco.pseudo_labels.clusters import OnlineClusters, label_clusters
from semco.pseudo_labels.prototypes import RunningPrototypes


def two_clusters() -> OnlineClusters:
    clusters = OnlineClusters((2, 2, 3), pool_size=6)
    clusters.centres.copy_(torch.eye(2))
    return clusters


def test_a_step_by_hand() -> None:
    clusters = two_clusters()
    points = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, -0.8]])
    clusters.update(points, torch.tensor([5, 0, 2]), torch.tensor([1, 1, 0]))
    assert clusters.cluster.tolist() == [0, 0, 0, 0, 0, 0]
    torch.testing.assert_close(clusters.score, torch.tensor([0.8, 0, 0.6, 0, 0, 1.0]))
    assert clusters.class_ids.tolist() == [1, -1, 0, -1, -1, 1]
    # The learning rate is 0.08: 0.9 - 2 is negative, and 0.08 * (0.9 - 0) is 0.072.
    torch.testing.assert_close(clusters.duals, torch.tensor([0.0, 0.072]))
    mean = F.normalize(torch.tensor([2.4, -0.2]), dim=0)
    torch.testing.assert_close(clusters.centres, torch.stack([mean, torch.tensor([0.0, 1.0])]))
    # The same cosine with both centres: the dual variable decides.
    between = F.normalize(clusters.centres.sum(dim=0), dim=0)
    assert clusters.assign(between[None])[1].tolist() == [1]


def test_centres_are_means_of_one_pass() -> None:
    clusters = two_clusters()
    clusters.duals.copy_(torch.tensor([50.0, 0.0]))  # all images go to the first cluster
    first, second = torch.tensor([[0.6, 0.8]]), torch.tensor([[0.8, -0.6]])
    index, class_ids = torch.tensor([0]), torch.tensor([0])
    clusters.update(first, index, class_ids)
    torch.testing.assert_close(clusters.centres[0], first[0])  # the random initial centre has no weight
    clusters.update(second, index, class_ids)
    torch.testing.assert_close(clusters.centres[0], F.normalize(first + second, dim=-1)[0])
    clusters.relabel()
    clusters.update(second, index, class_ids)
    torch.testing.assert_close(clusters.centres[0], second[0])


def test_no_cluster_stays_small() -> None:
    """Nine tenths of the points lie around one direction; without dual variables most clusters would be empty."""
    torch.manual_seed(0)
    points = torch.randn(400, 8)
    points[:360] += 4 * F.normalize(torch.ones(8), dim=0)
    points = F.normalize(points, dim=-1)
    clusters = OnlineClusters((10, 8, 2), pool_size=400)
    labels = torch.zeros(400, dtype=torch.int64)
    for _ in range(30):
        for index in torch.randperm(400).split(80):
            clusters.update(points[index], index, labels[index])
        clusters.relabel()
    sizes = clusters.cluster.bincount(minlength=10)
    plain = (points @ clusters.centres.T).argmax(dim=-1).bincount(minlength=10)
    assert int(sizes.min()) >= 10
    assert int(sizes.max()) <= 100
    assert int(sizes.min()) >= int(plain.min())


def test_labels_of_clusters_by_hand() -> None:
    cluster = torch.tensor([0, 0, 0, 0, 1, 1])
    class_ids = torch.tensor([2, 2, 0, -1, 1, 1])
    score = torch.tensor([0.5, 0.25, 0.5, 9.0, 0.1, 0.2])
    former = torch.full((3, 3), 1 / 3)
    labels = label_clusters(cluster, score, class_ids, former)
    # Class 2: two images of scores 0.5 + 0.25, so 1.5; class 0: one of 0.5.
    torch.testing.assert_close(labels[0], torch.tensor([0.25, 0.0, 0.75]))
    torch.testing.assert_close(labels[1], torch.tensor([0.0, 1.0, 0.0]))
    torch.testing.assert_close(labels[2], former[2])


def test_prototypes_are_directions_of_sums() -> None:
    prototypes = RunningPrototypes(3, 2)
    prototypes.add(torch.tensor([[1.0, 0.0], [2.0, 4.0], [0.0, 2.0]]), torch.tensor([0, 0, 2]))
    assert float(prototypes.vectors.abs().sum()) == 0.0
    prototypes.renew()
    assert prototypes.vectors.tolist() == [pytest.approx([0.6, 0.8]), [0, 0], [0, 1]]
    prototypes.add(torch.tensor([[0.0, -3.0]]), torch.tensor([2]))
    prototypes.renew()
    assert prototypes.vectors.tolist() == [pytest.approx([0.6, 0.8]), [0, 0], [0, -1]]
