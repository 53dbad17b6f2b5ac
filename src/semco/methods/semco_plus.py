"""SemCo+: our variant of SemCo. It is what ``semco train`` uses from random weights.

It has the six loss terms of the paper (`semco.methods.semco`) and departs from it in the fields below. Each of them has
a NOTE with the paper's value and can be switched back. docs/confidence.md says why, and what each departure is worth.

Shapes: B labelled images, U unlabelled images, K classes, d embedding size, Q groups.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from semco import pseudo_labels as pl
from semco.config import Section, Unit
from semco.losses import masked_mean, soft_cross_entropy
from semco.methods.base import Forward, Method
from semco.methods.freematch import FreeMatchFields, FreeMatchThreshold
from semco.methods.semco import (
    SEMANTIC_LOSSES,
    CoTrainingConfig,
    check_semantic_loss,
    loss_weights,
    semco_losses,
)
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts

P = TypeVar("P", bound=PseudoLabels)


class FixedThresholds(Section):
    rule: Literal["fixed"] = "fixed"
    tau_e: Unit = 0.9
    """Threshold of the semantic head for a group score."""
    tau_o: Unit = 0.95
    """Threshold of the one-hot head for a class probability."""


class FreeMatchThresholds(FreeMatchFields):
    rule: Literal["freematch"] = "freematch"
    weight: Literal["confidence", "one"] = "confidence"


Thresholds = FixedThresholds | FreeMatchThresholds


def _with_rule(value: Any) -> Any:
    """Read a bare rule name; a section that names no rule belongs to the default rule."""
    if isinstance(value, str):
        return {"rule": value}
    return {"rule": "freematch", **value} if isinstance(value, dict) else value


class SemCoPlusConfig(CoTrainingConfig):
    name: Literal["semco_plus"] = "semco_plus"
    thresholds: Annotated[Thresholds, Field(discriminator="rule"), BeforeValidator(_with_rule)] = FreeMatchThresholds()
    """How pseudo-labels are selected and weighted: rule is fixed or freematch; each has its own fields. With freematch
    each head also has a fairness loss. NOTE: the paper has fixed thresholds (tau_e 0.7, tau_o 0.95), weight one and no
    fairness loss."""
    scoring: Literal["joint", "paper"] = "joint"
    """Class scores of the semantic head: the mean of both heads' probabilities; the pseudo-label is the best class of
    the winning group. NOTE: the paper uses the semantic head alone, and argmax(p) over all classes ("paper")."""
    perfect_score: float = Field(default=0.97, gt=0, lt=1)
    """Mean score of a perfect prediction with scale=solved. NOTE: 0.9 in `semco`; the paper gives no value."""
    cotraining_target: Literal["distribution", "label"] = "distribution"
    """What the semantic head teaches the one-hot head: the distribution over the classes of the winning group.
    NOTE: the paper teaches the most likely class ("label")."""
    vectors: Literal["centred", "as_given"] = "centred"
    """Label vectors that the semantic head predicts: with their mean subtracted; groups are found before that. NOTE:
    the paper uses the vectors as given."""

    @property
    def centres_label_vectors(self) -> bool:
        return self.vectors == "centred"


class SemCoPlus(Method[SemCoPlusConfig]):
    """SemCo with joint scoring, adaptive thresholds, confidence-weighted pseudo-labels, soft co-training targets and
    centred label vectors."""

    name = "semco_plus"
    title = "SemCo+ (ours, after Nassar et al. 2021)"
    Config = SemCoPlusConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1, unlabelled_strong=1)
    heads = ("one_hot", "semantic")
    pretrained_head = "average"  # NOTE: the paper predicts with the one-hot head
    label_vectors: Tensor  # (K, d): M

    def __init__(self, config: SemCoPlusConfig, task: Task) -> None:
        super().__init__(config, task)
        check_semantic_loss(config, task)
        self.register_buffer("label_vectors", task.label_vectors.clone(), persistent=False)
        self.groups = pl.ClassGroups(task.group_ids)
        self.scale = pl.choose_scale(config.scale, config.perfect_score, task)
        self.one_hot_policy = build_policy(config.thresholds, "tau_o", torch.ones(task.num_classes))
        self.semantic_policy = build_policy(config.thresholds, "tau_e", self.groups.sizes)

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        x, u = batch.labelled, batch.unlabelled
        step = forward.begin(labelled=x.weak[0], strong=u.strong[0], no_grad={"weak": u.weak[0]})
        weak = step.targets["weak"]
        probabilities, index = weak.logits.softmax(dim=-1), batch.unlabelled_index
        scores = self._scores(weak, probabilities)
        pl.update_policy(self.one_hot_policy, probabilities, index, progress)
        pl.update_policy(self.semantic_policy, scores.groups, index, progress)
        pseudo = self._select(weak, scores)
        one_hot, semantic = pseudo["one_hot"], pseudo["semantic"]
        assert isinstance(semantic, pl.SemanticPseudoLabels)
        outputs = step.finish(strong=one_hot.weights + semantic.weights > 0)
        labelled, strong = outputs["labelled"], outputs["strong"]
        metrics = {
            "mask_one_hot": one_hot.weights.mean(),
            "mask_semantic": semantic.weights.mean(),
            "disagreement": pl.disagreement(one_hot, semantic).mean(),
        }
        factor = self.one_hot_policy.loss_weight()  # one factor for both heads
        one_hot, semantic = apply_confidence_weight(one_hot, factor), apply_confidence_weight(semantic, factor)
        loss = SEMANTIC_LOSSES[self.config.semantic_loss]
        losses = semco_losses(labelled, strong, batch.class_ids, self.label_vectors, one_hot, semantic, loss)
        if self.config.cotraining_target == "distribution":
            errors = soft_cross_entropy(strong.logits, semantic.class_weights)
            losses["cotraining_one_hot"] = masked_mean(errors, semantic.weights)
        policy_losses, policy_weights = self._policy_losses(strong, one_hot, semantic, progress)
        return StepResult(losses | policy_losses, loss_weights(self.config) | policy_weights, metrics, pseudo)

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> dict[str, PseudoLabels]:  # noqa: ARG002
        return self._select(weak, self._scores(weak, weak.logits.softmax(dim=-1)))

    def _select(self, weak: Outputs, scores: pl.SemanticScores) -> dict[str, PseudoLabels]:
        retained = self.semantic_policy.weights(scores.groups)
        best_in_group = self.config.scoring == "joint"
        semantic = pl.semantic_pseudo_labels(scores, self.label_vectors, self.groups, retained, best_in_group)
        return {"one_hot": pl.one_hot_pseudo_labels(weak.logits, self.one_hot_policy), "semantic": semantic}

    def _scores(self, outputs: Outputs, probabilities: Tensor) -> pl.SemanticScores:
        """Return the scores of the semantic head, given the probabilities (U, K) of the one-hot head."""
        assert self.scale is not None
        embedding = pl.embedding_of(outputs)
        if self.config.semantic_loss == "cross_entropy":
            scores = pl.logit_scores(embedding, self.groups)
        else:
            scores = pl.paper_scores(embedding, self.label_vectors, self.groups, self.scale)
        return scores if self.config.scoring == "paper" else joint_scores(scores, probabilities, self.groups)

    def _policy_losses(
        self, strong: Outputs, one_hot: PseudoLabels, semantic: PseudoLabels, progress: Progress
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Return the losses of the threshold policies (FreeMatch's fairness), by head, and their weights."""
        if not self.one_hot_policy.weights_of_losses:
            return {}, {}
        probabilities = strong.logits.softmax(dim=-1)
        groups = self._scores(strong, probabilities).groups
        by_head = {
            "one_hot": (self.one_hot_policy, probabilities, one_hot.weights),
            "semantic": (self.semantic_policy, groups, semantic.weights),
        }
        losses, weights = {}, {}
        for head, (policy, scores, retained) in by_head.items():
            for name, loss in policy.losses(scores, retained, progress).items():
                losses[f"{name}_{head}"] = loss
                weights[f"{name}_{head}"] = policy.weights_of_losses[name]
        return losses, weights


def joint_scores(scores: pl.SemanticScores, probabilities: Tensor, groups: pl.ClassGroups) -> pl.SemanticScores:
    """Return p = the mean of both heads' probabilities (U, K) and its sums over the groups (U, Q).

    A cosine gives the direction of a prediction but not how sure it is, so an untrained semantic head looks certain.
    Here it contributes at most half of the score of a group; the other half comes from the one-hot head.
    """
    classes = (scores.classes + probabilities) / 2
    return pl.SemanticScores(classes, groups.sum_scores(classes))


def apply_confidence_weight(pseudo: P, factor: Tensor | None) -> P:
    """Return pseudo-labels with their weights multiplied by a factor ().

    Adaptive thresholds retain most images from the start, when few pseudo-labels are right.
    """
    return pseudo if factor is None else replace(pseudo, weights=pseudo.weights * factor)


def build_policy(config: Thresholds, threshold: Literal["tau_e", "tau_o"], sizes: Tensor) -> pl.ThresholdPolicy:
    """Return the policy of one head; ``sizes`` (C,) is the number of classes in each of its choices."""
    if isinstance(config, FreeMatchThresholds):
        return FreeMatchThreshold(config, sizes)
    return pl.FixedThreshold(getattr(config, threshold))
