"""Metrics compared with numbers computed by hand and, for random input, with slow loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from semco.errors import UserError
from semco.evaluation import metrics
from semco.evaluation.metrics import Confusion, confusion_from_json, confusion_of
from semco.evaluation.probabilities import Scorer, predict_probabilities
from semco.types import Outputs

# Four images, three classes; argmax is 0, 1, 2, 0 and the truth 0, 1, 1, 2.
PROBABILITIES = np.array([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6], [0.55, 0.35, 0.1]])
TRUTH = np.array([0, 1, 1, 2])
CONFUSION = confusion_of(PROBABILITIES.argmax(axis=1), TRUTH, 3)


def test_top_k_by_hand() -> None:
    assert metrics.accuracy(PROBABILITIES, TRUTH) == 0.5
    assert metrics.top_k_accuracy(PROBABILITIES, TRUTH, k=2) == 0.75
    assert metrics.top_k_accuracy(PROBABILITIES, TRUTH, k=5) == 1.0


def test_ties_are_ranked_as_argmax_ranks_them() -> None:
    equal = np.full((2, 4), 0.25)
    truth = np.array([0, 1])
    assert metrics.accuracy(equal, truth) == 0.5
    assert metrics.top_k_accuracy(equal, truth, k=2) == 1.0


def test_top_k_equals_a_sorted_loop() -> None:
    generator = np.random.default_rng(1)
    probabilities = generator.dirichlet(np.ones(12), size=200)
    truth = generator.integers(0, 12, size=200)
    best = [sorted(range(12), key=row.__getitem__)[-5:] for row in probabilities]
    hits = [t in classes for t, classes in zip(truth, best, strict=True)]
    assert metrics.top_k_accuracy(probabilities, truth, k=5) == pytest.approx(np.mean(hits))


def test_confusion_by_hand() -> None:
    assert CONFUSION.dense().tolist() == [[1, 0, 0], [0, 1, 1], [1, 0, 0]]
    assert (CONFUSION.images.tolist(), CONFUSION.predictions.tolist()) == ([1, 2, 1], [2, 1, 1])
    assert CONFUSION.correct.tolist() == [1, 1, 0]
    assert CONFUSION.mistakes() == [(1, 2, 1), (2, 0, 1)]


def test_the_most_common_mistakes_come_first() -> None:
    confusion = _from_matrix([[2, 1, 0], [4, 0, 1], [0, 3, 3]])
    assert confusion.mistakes() == [(1, 0, 4), (2, 1, 3), (0, 1, 1), (1, 2, 1)]


def test_confusion_equals_a_loop_and_survives_json() -> None:
    generator = np.random.default_rng(2)
    truth, predicted = generator.integers(0, 7, size=(2, 500))
    expected = [[0] * 7 for _ in range(7)]
    for t, p in zip(truth, predicted, strict=True):
        expected[t][p] += 1
    confusion = confusion_of(predicted, truth, 7)
    assert confusion.dense().tolist() == expected
    read = confusion_from_json(confusion.to_json(), 7)
    assert read is not None
    assert read.to_json() == confusion.to_json()


@pytest.mark.parametrize(
    "values",
    [
        None,
        [[1]],
        [[1, 2, 3]],
        [[1, 2, 3], [1], 2],
        "text",
        {},
        {"truth": ["a"], "predicted": [0], "counts": [1]},
        {"truth": [2**70], "predicted": [0], "counts": [1]},
        {"truth": [0], "predicted": [3], "counts": [1]},
        {"truth": [-1], "predicted": [0], "counts": [1]},
        {"truth": [0, 1], "predicted": [0], "counts": [1]},
    ],
)
def test_a_confusion_of_other_classes_is_none(values: object) -> None:
    assert confusion_from_json(values, 3) is None


def _from_matrix(values: list[list[int]]) -> Confusion:
    matrix = np.asarray(values)
    truth, predicted = np.nonzero(matrix)
    return Confusion(truth, predicted, matrix[truth, predicted], len(values))


def test_per_class_by_hand() -> None:
    assert metrics.per_class_accuracy(CONFUSION) == [1.0, 0.5, 0.0]
    assert metrics.per_class_precision(CONFUSION) == [0.5, 1.0, 0.0]


def test_a_class_without_images_has_no_accuracy() -> None:
    confusion = _from_matrix([[2, 1, 0], [0, 0, 0], [0, 0, 3]])
    assert metrics.per_class_accuracy(confusion) == [2 / 3, None, 1.0]
    assert metrics.per_class_precision(confusion) == [1.0, 0.0, 1.0]
    assert metrics.per_class_precision(_from_matrix([[2, 0, 0], [1, 0, 0], [0, 0, 3]]))[1] is None


def test_mistakes_within_a_group_count_as_correct() -> None:
    groups = np.array([0, 1, 1])  # classes 1 and 2 together
    assert metrics.per_group_accuracy(CONFUSION, groups) == [1.0, pytest.approx(2 / 3)]
    assert metrics.group_accuracy(CONFUSION, groups) == 0.75


def test_groups_of_one_are_classes() -> None:
    alone = np.arange(3)
    assert metrics.per_group_accuracy(CONFUSION, alone) == metrics.per_class_accuracy(CONFUSION)
    assert metrics.group_accuracy(CONFUSION, alone) == 0.5


def test_calibration_by_hand() -> None:
    # Bins (0, .5] and (.5, 1]: confidences .5 (right) | .8 (right), .6 (wrong), .55 (wrong).
    # |1 - .5| * 1/4 + |1/3 - .65| * 3/4 = .125 + .2375
    assert metrics.expected_calibration_error(PROBABILITIES, TRUTH, bins=2) == pytest.approx(0.3625)


def test_calibration_of_a_perfect_and_of_an_overconfident_model() -> None:
    certain = np.eye(4)
    assert metrics.expected_calibration_error(certain, np.arange(4)) == 0.0
    assert metrics.expected_calibration_error(certain, np.array([1, 2, 3, 0])) == 1.0


M = torch.eye(2)


def outputs() -> Outputs:
    """One image: the logits give 3:1 for class 0; the embedding (0, 7) points at class 1."""
    return Outputs(torch.zeros(1, 3), torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([[0.0, 7.0]]))


def test_one_hot_is_the_softmax_of_the_logits() -> None:
    np.testing.assert_allclose(Scorer("one_hot")(outputs()), [[0.75, 0.25]], rtol=1e-6)


def test_semantic_is_a_scaled_softmax_of_cosines() -> None:
    # cosines 0 and 1, scale ln 4 -> 1 : 4
    scorer = Scorer("semantic", M, scale=math.log(4.0))
    np.testing.assert_allclose(scorer(outputs()), [[0.2, 0.8]], rtol=1e-6)


def test_average_is_the_mean_of_the_two() -> None:
    scorer = Scorer("average", M, scale=math.log(4.0))
    np.testing.assert_allclose(scorer(outputs()), [[0.475, 0.525]], rtol=1e-6)


@pytest.mark.parametrize("head", ["semantic", "average"])
def test_a_model_without_semantic_head_is_refused(head: str) -> None:
    bare = Outputs(torch.zeros(1, 3), torch.zeros(1, 2))
    with pytest.raises(UserError, match=f"head '{head}' needs a model with a semantic head"):
        Scorer(head, M, 1.0)(bare)  # type: ignore[arg-type]


class ModeDependent(nn.Module):
    """Predicts differently in training mode, and stores the sizes of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def forward(self, images: Tensor) -> Outputs:
        self.sizes.append(len(images))
        flat = images.flatten(1)
        return Outputs(flat, -flat if self.training else flat)


def test_batches_are_joined_unpadded_in_evaluation_mode() -> None:
    network = ModeDependent().train()
    images = torch.randn(7, 3, 1, 1, generator=torch.Generator().manual_seed(0))
    joined = predict_probabilities(network, images.split(3), Scorer())
    assert network.sizes == [3, 3, 1]
    assert network.training
    np.testing.assert_allclose(joined, images.flatten(1).softmax(dim=1), rtol=1e-6)


def test_damaged_weights_are_named() -> None:
    with pytest.raises(UserError, match="not finite"):
        predict_probabilities(ModeDependent(), [torch.full((2, 3, 1, 1), math.nan)], Scorer())
