"""FlexMatch: Boosting Semi-Supervised Learning with Curriculum Pseudo Labeling (Zhang et al. 2021)."""

from __future__ import annotations

from typing import Literal

from semco.methods.fixmatch import FixMatch, FixMatchConfig


class FlexMatchConfig(FixMatchConfig):
    name: str = "flexmatch"
    thresholds: Literal["flexmatch"] = "flexmatch"


class FlexMatch(FixMatch):
    """FixMatch with a threshold for each class, lower for those that are still hard."""

    name = "flexmatch"
    title = "FlexMatch (Zhang et al. 2021)"
    Config = FlexMatchConfig
