"""SemCo: All Labels Are Not Created Equal (Nassar et al. 2021).

Two heads on one backbone: a one-hot classifier that works as FixMatch, and a semantic classifier that
predicts label embeddings and trusts groups of similar classes. Each learns from the other's pseudo-labels.
Shapes: B labelled images, U unlabelled images, K classes, d embedding size, Q label groups.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field, PositiveFloat, model_validator
from torch import Tensor

from semco import pseudo_labels as pl
from semco.config import Unit
from semco.losses import cosine_loss, cross_entropy, masked_mean, soft_cross_entropy
from semco.methods.base import Forward, Method
from semco.methods.thresholding import Rule, ThresholdConfig, build_policy, weighed
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts


class SemCoConfig(ThresholdConfig):
    name: str = "semco"
    thresholds: Rule = "freematch"
    trust: Literal["confidence", "full"] = "confidence"
    lambda_u: float = Field(default=1.0, ge=0)
    """Weight of the losses on unlabelled images."""
    lambda_co: float = Field(default=1.0, ge=0)
    """Weight of the co-training loss; 0: no co-training."""
    tau_e: Unit = 0.9
    """With fixed thresholds: confidence from which a group of the semantic head is trusted."""
    tau_o: Unit = 0.95
    """With fixed thresholds: confidence from which a class of the one-hot head is trusted."""
    semantic_weight: float = Field(default=3.0, ge=0)
    """Factor of every cosine term, as cosine losses are smaller than cross-entropies."""
    scoring: Literal["joint", "paper", "reference"] = "joint"
    """How cosines become scores: heard with the other head (ours), as the paper says, as the authors' code does."""
    scale: PositiveFloat | Literal["auto"] = "auto"
    """Scale of the cosines; "auto": perfect predictions get perfect_score on average."""
    perfect_score: float = Field(default=0.97, gt=0, lt=1)
    """What scale=auto gives a perfect prediction on average."""
    lesson: Literal["distribution", "label"] = "distribution"
    """What the semantic head teaches the other: how likely each class of the group is, or (paper) the likeliest
    alone."""
    on_disagreement: Literal["both", "discard"] = "both"
    """Both heads confident of different classes: both labels count in the co-training loss, or neither."""

    @model_validator(mode="before")
    @classmethod
    def _rules_own_confidence(cls, values: Any) -> Any:
        """The paper's and the authors' rules come with the paper's thresholds and labels, unless others are given."""
        if isinstance(values, dict) and values.get("scoring") in ("paper", "reference"):
            return {"thresholds": "fixed", "tau_e": 0.7, "perfect_score": 0.9, "lesson": "label", **values}
        return values

    @model_validator(mode="after")
    def _scores_that_sum_to_one(self) -> SemCoConfig:
        if self.scoring == "reference" and self.thresholds in ("freematch", "softmatch"):
            raise ValueError(
                f"thresholds {self.thresholds!r} need scores that sum to 1, which scoring 'reference' does not give; "
                "use scoring 'paper', or thresholds 'fixed' or 'flexmatch'"
            )
        return self


class SemCo(Method[SemCoConfig]):
    """Two heads that trust different samples, and teach each other."""

    name = "semco"
    title = "SemCo (Nassar et al. 2021)"
    Config = SemCoConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1, unlabelled_strong=1)
    heads = ("one_hot", "semantic")
    matrix: Tensor  # (K, d): M

    def __init__(self, config: SemCoConfig, task: Task) -> None:
        super().__init__(config, task)
        self.register_buffer("matrix", task.embeddings.clone(), persistent=False)
        self.class_groups = pl.ClassGroups(task.groups)
        self.rule = _scoring_rule(config, task)
        self.scale = self.rule.scale
        classes, groups = torch.ones(task.num_classes), self.class_groups.sizes
        self.one_hot_policy = build_policy(config, config.tau_o, classes, task.pool_size)
        self.semantic_policy = build_policy(config, config.tau_e, groups, task.pool_size)

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:  # noqa: ARG002
        x, u = batch.labelled, batch.unlabelled
        outputs = forward(labelled=x.weak[0], strong=u.strong[0], no_grad={"weak": u.weak[0]})
        labelled, strong, weak = outputs["labelled"], outputs["strong"], outputs["weak"]
        one_hot, semantic = self._both_heads(weak, batch.unlabelled_index)
        said, disagreement = {"one_hot": one_hot, "semantic": semantic}, _disagreement(one_hot, semantic)
        one_hot = weighed(one_hot, self.config, self.one_hot_policy)
        semantic = weighed(semantic, self.config, self.one_hot_policy)
        to_label = cosine_loss(self.matrix[batch.labels], _embedding(labelled))  # (B,)
        to_target = cosine_loss(semantic.target, _embedding(strong))  # (U,)
        to_class = cross_entropy(strong.logits, one_hot.labels)  # (U,)
        losses = {
            "supervised_one_hot": cross_entropy(labelled.logits, batch.labels).mean(),  # Eq. 6
            "supervised_semantic": to_label.mean(),  # Eq. 3
            "unlabelled_one_hot": masked_mean(to_class, one_hot.mask),  # Eq. 7
            "unlabelled_semantic": masked_mean(to_target, semantic.mask),  # Eq. 5
            "cotraining": self._cotraining(strong, one_hot, semantic, disagreement),  # Eq. 8
        }
        of_policies = self._policy_losses(strong, one_hot, semantic)
        metrics = {
            "mask_one_hot": said["one_hot"].mask.mean(),
            "mask_semantic": said["semantic"].mask.mean(),
            "disagreement": disagreement.mean(),
        }
        weights = {**self._weights(), **dict.fromkeys(of_policies, self.config.lambda_f)}
        return StepResult({**losses, **of_policies}, weights, metrics, said)

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> dict[str, PseudoLabels]:
        one_hot, semantic = self._both_heads(weak, index)
        return {"one_hot": one_hot, "semantic": semantic}

    def _both_heads(self, weak: Outputs, index: Tensor) -> tuple[PseudoLabels, pl.SemanticPseudoLabels]:
        q, M, groups = _embedding(weak), self.matrix, self.class_groups
        one_hot = pl.one_hot_pseudo_labels(weak.logits, index, self.one_hot_policy)
        return one_hot, pl.semantic_pseudo_labels(
            q, weak.logits.softmax(dim=-1), index, M, groups, self.rule, self.semantic_policy
        )

    def _policy_losses(self, strong: Outputs, one_hot: PseudoLabels, semantic: PseudoLabels) -> dict[str, Tensor]:
        """What the threshold policies add (FreeMatch's fairness), by head: of classes, and of groups."""
        if not self.one_hot_policy.has_losses:
            return {}
        cosines, chances = pl.cosine_similarities(_embedding(strong), self.matrix), strong.logits.softmax(dim=-1)
        groups = self.rule.scores(cosines, chances, self.class_groups).groups
        by_head = {
            "one_hot": self.one_hot_policy.losses(chances, one_hot.mask),
            "semantic": self.semantic_policy.losses(groups, semantic.mask),
        }
        return {f"{name}_{head}": loss for head, losses in by_head.items() for name, loss in losses.items()}

    def _cotraining(
        self, strong: Outputs, one_hot: PseudoLabels, semantic: pl.SemanticPseudoLabels, disagreement: Tensor
    ) -> Tensor:
        """Eq. 8: each head learns from the other's pseudo-label, where the other is confident.

        The semantic head is confident of a group, so what it teaches is all it knows of the classes in it.
        """
        keep = 1.0 - disagreement * (self.config.on_disagreement == "discard")
        to_semantic = cosine_loss(self.matrix[one_hot.labels], _embedding(strong))
        if self.config.lesson == "distribution":
            to_one_hot = soft_cross_entropy(strong.logits, semantic.weights)
        else:
            to_one_hot = cross_entropy(strong.logits, semantic.labels)
        cosine_half = masked_mean(to_semantic, one_hot.mask * keep)
        return self.config.semantic_weight * cosine_half + masked_mean(to_one_hot, semantic.mask * keep)

    def _weights(self) -> dict[str, float]:
        """Eq. 9; the cosine half of the co-training loss carries its semantic weight already."""
        lambda_u, semantic_weight = self.config.lambda_u, self.config.semantic_weight
        return {
            "supervised_semantic": semantic_weight,
            "unlabelled_one_hot": lambda_u,
            "unlabelled_semantic": lambda_u * semantic_weight,
            "cotraining": self.config.lambda_co,
        }


def _disagreement(one_hot: PseudoLabels, semantic: PseudoLabels) -> Tensor:
    """Where both heads are confident, of different classes: (U,), 1 or 0 (with SoftMatch, how much both count)."""
    return (one_hot.labels != semantic.labels) * one_hot.mask * semantic.mask


def _embedding(outputs: Outputs) -> Tensor:
    """The semantic head's prediction (N, d); the head is built because this method declares it."""
    assert outputs.embedding is not None
    return outputs.embedding


def _scoring_rule(config: SemCoConfig, task: Task) -> pl.ScoringRule:
    if config.scoring == "reference":
        return pl.ReferenceScoring()
    rule = pl.JointScoring if config.scoring == "joint" else pl.PaperScoring
    if config.scale != "auto":
        return rule(config.scale)
    return rule(pl.solve_scale(task.embeddings, task.groups, config.perfect_score, task.class_names))
