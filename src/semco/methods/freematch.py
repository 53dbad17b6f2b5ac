"""FreeMatch: Self-adaptive Thresholding for Semi-supervised Learning (Wang et al. 2023)."""

from __future__ import annotations

from typing import Literal

from semco.methods.fixmatch import FixMatch, FixMatchConfig


class FreeMatchConfig(FixMatchConfig):
    name: str = "freematch"
    thresholds: Literal["freematch"] = "freematch"


class FreeMatch(FixMatch):
    """FixMatch with thresholds that follow the network's own confidence, and a loss that keeps predictions diverse."""

    name = "freematch"
    title = "FreeMatch (Wang et al. 2023)"
    Config = FreeMatchConfig
