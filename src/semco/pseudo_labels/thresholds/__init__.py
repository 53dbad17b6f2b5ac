"""Threshold policies: which pseudo-labels of a head to trust, and how much."""

from semco.pseudo_labels.thresholds.base import FixedThreshold, ThresholdPolicy
from semco.pseudo_labels.thresholds.flexmatch import FlexMatchThreshold
from semco.pseudo_labels.thresholds.freematch import FreeMatchThreshold
from semco.pseudo_labels.thresholds.softmatch import SoftMatchWeights

__all__ = ["FixedThreshold", "FlexMatchThreshold", "FreeMatchThreshold", "SoftMatchWeights", "ThresholdPolicy"]
