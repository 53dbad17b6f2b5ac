"""SoftMatch: Addressing the Quantity-Quality Trade-off in Semi-supervised Learning (Chen et al. 2023)."""

from __future__ import annotations

from typing import Literal

from semco.methods.fixmatch import FixMatch, FixMatchConfig


class SoftMatchConfig(FixMatchConfig):
    name: str = "softmatch"
    thresholds: Literal["softmatch"] = "softmatch"


class SoftMatch(FixMatch):
    """FixMatch with every sample weighed by how confident it is among the others, in place of a threshold."""

    name = "softmatch"
    title = "SoftMatch (Chen et al. 2023)"
    Config = SoftMatchConfig
