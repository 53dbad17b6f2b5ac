"""FineSSL on numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from scripted import ScriptedForward, at, log_table, make_batch, make_task, softmax

from semco.methods.finessl import FineSSL, FineSSLConfig, add_margins, class_margins, smooth_labels

LABELLED = [[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]]
WEAK = [[0.8, 0.1, 0.1], [0.4, 0.5, 0.1]]
STRONG = ([[0.6, 0.2, 0.2], [0.3, 0.3, 0.4]], [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])


def make_method(**fields: float) -> FineSSL:
    """The logits are the features (`ScriptedForward`); the auxiliary classifier halves them."""
    task = make_task(3)
    method = FineSSL(FineSSLConfig(**fields), type(task)(**{**vars(task), "num_features": 3}))
    with torch.no_grad():
        method.auxiliary.weight.copy_(0.5 * torch.eye(3))
        method.auxiliary.bias.zero_()
    return method.double()


def example_batch() -> object:
    return make_batch([0, 2], log_table(LABELLED), [log_table(WEAK)], [log_table(rows) for rows in STRONG])


def test_margins_by_hand() -> None:
    # Four images of class 0, two of class 1, one of class 2, and three that were never confident.
    chosen = torch.tensor([0, 0, 0, 0, 1, 1, 2, -1, -1, -1])
    # sigma is 1, 1/2, 1/4; the spread 3/4.
    expected = [0, 8 * 0.75 * 0.5 / 1.5, 8 * 0.75 * 0.75 / 1.25]
    assert class_margins(chosen, 3, 8.0).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("chosen", [[-1, -1, -1], [0, 1, 2], [2, 1, 0, 0, 1, 2]])
def test_no_margins_while_the_counts_are_equal(chosen: list[int]) -> None:
    assert class_margins(torch.tensor(chosen), 3, 8.0).tolist() == [0, 0, 0]


def test_a_margin_is_added_to_all_classes_but_the_label() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    added = add_margins(logits, torch.tensor([0, 2]), torch.tensor([0.5, 9.0, 0.25]))
    assert added.tolist() == [[1.0, 2.5, 3.5], [1.25, 2.25, 3.0]]


def test_smoothed_labels() -> None:
    rows = smooth_labels(torch.tensor([1, 0]), 5, 0.4, torch.float64).tolist()
    assert rows == [pytest.approx([0.1, 0.6, 0.1, 0.1, 0.1]), pytest.approx([0.6, 0.1, 0.1, 0.1, 0.1])]


def slow_cross_entropy(logits: list[float], label: int, margin: float = 0.0) -> float:
    """Balanced margin softmax, as the paper writes it."""
    others = sum(math.exp(z + margin) for k, z in enumerate(logits) if k != label)
    return -math.log(math.exp(logits[label]) / (math.exp(logits[label]) + others))


def test_a_step_by_hand() -> None:
    method = make_method(margin=2.0, smoothing=0.4)
    method.chosen[4:7] = torch.tensor([0, 0, 1])
    margins = [0.0, 2 * 0.5 / 1.5, 2.0]  # sigma is 1, 1/2, 0
    result = method.compute(example_batch(), ScriptedForward(), at(0))
    logs = {name: log_table(rows).tolist() for name, rows in {"x": LABELLED, "w": WEAK}.items()}
    strong = [log_table(rows).tolist() for rows in STRONG]
    supervised = [slow_cross_entropy(logs["x"][0], 0, margins[0]), slow_cross_entropy(logs["x"][1], 2, margins[2])]
    assert result.losses["supervised"].item() == pytest.approx(sum(supervised) / 2)
    # The weights are the confidence of the auxiliary classifier.
    weights = [max(softmax([0.5 * z for z in row])) for row in logs["w"]]
    assert result.pseudo_labels["one_hot"].weights.tolist() == pytest.approx(weights)
    unlabelled = [
        w * slow_cross_entropy(rows[i], i, margins[i]) for rows in strong for i, w in enumerate(weights)
    ]  # image i is of class i
    assert result.losses["unlabelled"].item() == pytest.approx(sum(unlabelled) / 4)
    halved = [[0.5 * z for z in row] for row in logs["x"]]
    auxiliary = [slow_cross_entropy(halved[0], 0), slow_cross_entropy(halved[1], 2)]
    assert result.losses["auxiliary"].item() == pytest.approx(sum(auxiliary) / 2)
    # Only the first image is confident (0.8); both its strong views count.
    smooth = 0.0
    for rows in strong:
        p = softmax([0.5 * z for z in rows[0]])
        smooth -= 0.6 * math.log(p[0]) + 0.2 * math.log(p[1]) + 0.2 * math.log(p[2])
    assert result.losses["auxiliary_unlabelled"].item() == pytest.approx(smooth / 2)
    assert result.weights == {"unlabelled": 3.0}
    assert result.metrics["largest_margin"].item() == pytest.approx(2.0)


def test_only_confident_pseudo_labels_are_recorded() -> None:
    method = make_method()
    method.chosen[1] = 2
    method.compute(example_batch(), ScriptedForward(), at(0))
    assert method.chosen[:3].tolist() == [0, 2, -1]  # 0.8 is recorded, 0.5 is not


def test_the_auxiliary_classifier_does_not_train_the_backbone() -> None:
    method, batch = make_method(lambda_u=0.0), example_batch()
    images = [*batch.labelled.weak, *batch.unlabelled.strong]
    for image in images:
        image.requires_grad_()
    result = method.compute(batch, ScriptedForward(), at(0))
    (result.losses["auxiliary"] + result.losses["auxiliary_unlabelled"]).backward()
    assert all(image.grad is None for image in images)
    assert float(method.auxiliary.weight.grad.abs().sum()) > 0
