"""From the outputs on a weak view: targets, and how much each of them counts. No gradients in this room."""

from semco.pseudo_labels.alignment import DistributionAlignment, sharpen
from semco.pseudo_labels.one_hot import one_hot_pseudo_labels, one_hot_rows, soft_pseudo_labels
from semco.pseudo_labels.scale import choose_scale, solve_scale
from semco.pseudo_labels.semantic import (
    ClassGroups,
    SemanticPseudoLabels,
    SemanticScores,
    class_probabilities,
    cosine_similarities,
    disagreement,
    embedding_of,
    logit_scores,
    paper_scores,
    semantic_pseudo_labels,
)
from semco.pseudo_labels.thresholds import FixedThreshold, ThresholdPolicy, update_policy

__all__ = [
    "ClassGroups",
    "DistributionAlignment",
    "FixedThreshold",
    "SemanticPseudoLabels",
    "SemanticScores",
    "ThresholdPolicy",
    "choose_scale",
    "class_probabilities",
    "cosine_similarities",
    "disagreement",
    "embedding_of",
    "logit_scores",
    "one_hot_pseudo_labels",
    "one_hot_rows",
    "paper_scores",
    "semantic_pseudo_labels",
    "sharpen",
    "soft_pseudo_labels",
    "solve_scale",
    "update_policy",
]
