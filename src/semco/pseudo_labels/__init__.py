"""From what the heads say about a weak view: targets, and which samples to trust. No gradient in here."""

from semco.pseudo_labels.alignment import DistributionAlignment
from semco.pseudo_labels.one_hot import one_hot_pseudo_labels, soft_pseudo_labels
from semco.pseudo_labels.scale import solve_scale
from semco.pseudo_labels.semantic import (
    ClassGroups,
    JointScoring,
    PaperScoring,
    ReferenceScoring,
    ScoringRule,
    SemanticPseudoLabels,
    class_probabilities,
    cosine_similarities,
    semantic_pseudo_labels,
)
from semco.pseudo_labels.sharpening import sharpen
from semco.pseudo_labels.thresholds import (
    FixedThreshold,
    FlexMatchThreshold,
    FreeMatchThreshold,
    SoftMatchWeights,
    ThresholdPolicy,
)

__all__ = [
    "ClassGroups",
    "DistributionAlignment",
    "FixedThreshold",
    "FlexMatchThreshold",
    "FreeMatchThreshold",
    "JointScoring",
    "PaperScoring",
    "ReferenceScoring",
    "ScoringRule",
    "SemanticPseudoLabels",
    "SoftMatchWeights",
    "ThresholdPolicy",
    "class_probabilities",
    "cosine_similarities",
    "one_hot_pseudo_labels",
    "semantic_pseudo_labels",
    "sharpen",
    "soft_pseudo_labels",
    "solve_scale",
]
