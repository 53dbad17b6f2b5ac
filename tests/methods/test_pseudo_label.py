"""Pseudo-Label: its ramp alpha(t), its loss by hand, and its mistakes in the configuration."""

from __future__ import annotations

import math

import pytest
import torch
from scripted import ScriptedForward, at, log_table, make_batch, make_task

from semco.config import Config
from semco.errors import UserError
from semco.methods.pseudo_label import PseudoLabel, PseudoLabelConfig

LABELLED = log_table([[0.5, 0.5]])
UNLABELLED = log_table([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])


def test_by_hand() -> None:
    method = PseudoLabel(PseudoLabelConfig(), make_task(2))
    result = method.compute(make_batch([0], LABELLED, [UNLABELLED]), ScriptedForward(), at(100))
    assert float(result.losses["supervised"]) == pytest.approx(math.log(2))
    assert float(result.losses["unlabelled"]) == pytest.approx(-(math.log(0.9) + math.log(0.6) + math.log(0.8)) / 3)
    assert result.pseudo_labels["one_hot"].class_ids.tolist() == [0, 1, 1]
    assert float(result.metrics["mask_one_hot"]) == 1.0


def test_alpha_of_t() -> None:
    """Eq. 16 with alpha_f = 3, T1 = 100 and T2 = 600 of 1000."""
    method = PseudoLabel(PseudoLabelConfig(), make_task(2))
    example = make_batch([0], LABELLED, [UNLABELLED])
    alpha = [
        method.compute(example, ScriptedForward(), at(t, 1000)).weights["unlabelled"]
        for t in (0, 99, 100, 225, 350, 600, 999)
    ]
    assert alpha == pytest.approx([0, 0, 0, 0.75, 1.5, 3, 3])


def test_the_label_is_a_constant() -> None:
    """The gradient is that of a cross-entropy against a fixed label: softmax minus one-hot."""
    logits = UNLABELLED.clone().requires_grad_()
    method = PseudoLabel(PseudoLabelConfig(), make_task(2))
    method.compute(make_batch([0], LABELLED, [logits]), ScriptedForward(), at(0)).losses["unlabelled"].backward()
    assert logits.grad is not None
    expected = (UNLABELLED.exp() - torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])) / 3
    torch.testing.assert_close(logits.grad, expected)


def test_threshold() -> None:
    method = PseudoLabel(PseudoLabelConfig(tau=0.7), make_task(2))
    result = method.compute(make_batch([0], LABELLED, [UNLABELLED]), ScriptedForward(), at(0))
    assert result.pseudo_labels["one_hot"].weights.tolist() == [1, 0, 1]
    assert float(result.losses["unlabelled"]) == pytest.approx(-(math.log(0.9) + math.log(0.8)) / 3)


def test_an_end_before_the_start() -> None:
    with pytest.raises(UserError, match=r"end = 0\.2 must not be before start = 0\.5"):
        Config.parse({"method": {"name": "pseudo_label", "start": 0.5, "end": 0.2}})
