"""Distribution alignment against numbers worked out by hand and a plain list of past means."""

from __future__ import annotations

import pytest
import torch

from semco.pseudo_labels.alignment import DistributionAlignment, sharpen


def test_first_step_by_hand() -> None:
    """Labels are 3 : 1, predictions so far uniform, so the ratios are 1.5 and 0.5."""
    align = DistributionAlignment(torch.tensor([3, 1]), steps=4)
    aligned = align(torch.tensor([[0.5, 0.5], [0.2, 0.8]]))
    # (.75, .25) and (.3, .4) / .7.
    assert aligned.flatten().tolist() == pytest.approx([0.75, 0.25, 3 / 7, 4 / 7], abs=1e-5)


def test_against_a_list_of_the_last_steps() -> None:
    counts, steps = torch.tensor([2, 5, 3]), 3
    align = DistributionAlignment(counts, steps)
    generator = torch.Generator().manual_seed(0)
    past: list[list[float]] = []
    for _ in range(6):
        p = (2 * torch.randn(8, 3, generator=generator)).softmax(dim=-1)
        # Before the first step uniform, then the mean over what there is.
        model = [sum(row[k] for row in past) / len(past) if past else 1 / 3 for k in range(3)]
        expected = []
        for row in p.tolist():
            scaled = [q * (float(counts[k]) / 10) / model[k] for k, q in enumerate(row)]
            expected.append([s / sum(scaled) for s in scaled])
        torch.testing.assert_close(align(p), torch.tensor(expected), rtol=1e-4, atol=1e-4)
        past = [*past, p.mean(dim=0).tolist()][-steps:]
    torch.testing.assert_close(align.history, torch.tensor(past))


def test_aligned_predictions_follow_the_labels() -> None:
    """A model that says the same of every image is corrected to the distribution of the labels."""
    align = DistributionAlignment(torch.tensor([1, 1, 2]), steps=5)
    biased = torch.tensor([0.7, 0.2, 0.1]).repeat(6, 1)
    align(biased)
    aligned = align(biased)  # one step says it already
    torch.testing.assert_close(aligned[0], torch.tensor([0.25, 0.25, 0.5]), rtol=1e-4, atol=1e-4)


def test_what_evolves_is_saved_and_what_does_not_is_not() -> None:
    assert set(DistributionAlignment(torch.ones(3)).state_dict()) == {"history"}


def test_a_class_never_predicted_stays_finite() -> None:
    align = DistributionAlignment(torch.ones(2), steps=1)
    certain = torch.tensor([[1.0, 0.0]])
    align(certain)
    assert torch.isfinite(align(certain)).all()


def test_another_wanted_distribution() -> None:
    alignment = DistributionAlignment(torch.tensor([1, 1]), steps=2)
    alignment.remember(torch.tensor([[0.8, 0.2]]))
    aligned = alignment.align(torch.tensor([[0.5, 0.5]]), wanted=torch.tensor([0.4, 0.6]))
    # 0.4 / 0.8 against 0.6 / 0.2: 0.5 : 3.
    torch.testing.assert_close(aligned, torch.tensor([[1 / 7, 6 / 7]]), rtol=1e-4, atol=1e-5)


def test_by_hand() -> None:
    # Squares of (.5, .3, .2): .25, .09, .04, whose sum is .38.
    sharp = sharpen(torch.tensor([[0.5, 0.3, 0.2]]), 0.5)
    assert sharp[0].tolist() == pytest.approx([25 / 38, 9 / 38, 4 / 38])


def test_temperature_one_changes_nothing() -> None:
    p = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
    torch.testing.assert_close(sharpen(p, 1.0), p)


def test_small_temperature_is_one_hot_and_zero_stays_zero() -> None:
    p = torch.tensor([[0.4, 0.35, 0.25], [0.0, 1.0, 0.0]])
    torch.testing.assert_close(sharpen(p, 1e-3), torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))


def test_no_underflow_with_many_classes() -> None:
    uniform = torch.full((1, 10_000), 1e-4)
    torch.testing.assert_close(sharpen(uniform, 0.05), uniform)
