"""The temperature of confidences."""

from __future__ import annotations

import pytest
import torch

from semco.evaluation import calibration
from semco.evaluation.calibration import fit_temperature
from semco.evaluation.metrics import expected_calibration_error


def overconfident(count: int, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are ``factor`` times those from which the classes were drawn."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(count, 3, generator=generator)
    class_ids = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    return factor * logits, class_ids


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.5])
def test_it_finds_the_factor_by_which_logits_are_too_large(factor: float) -> None:
    logits, class_ids = overconfident(5000, factor)
    temperature = fit_temperature(logits, class_ids)
    assert temperature == pytest.approx(factor, rel=0.05)
    scaled = (logits / temperature).softmax(dim=1).numpy()
    assert expected_calibration_error(scaled, class_ids.numpy()) < 0.03


def test_few_images_change_little_and_the_best_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, class_ids = overconfident(6, 3.0)
    cautious = fit_temperature(logits, class_ids)
    monkeypatch.setattr(calibration, "PRIOR", 0.0)
    free = fit_temperature(logits, class_ids)
    tried = torch.linspace(calibration.LOWEST, calibration.HIGHEST, 2000)
    losses = [torch.nn.functional.cross_entropy(logits / t, class_ids) for t in tried]
    assert free == pytest.approx(float(tried[torch.stack(losses).argmin()]), abs=0.01)
    assert abs(cautious - 1) < abs(free - 1)
