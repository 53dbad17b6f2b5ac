"""SemCo: All Labels Are Not Created Equal (Nassar et al., CVPR 2021), as its text says; NOTEs name what it leaves open.

Two heads share one backbone. The one-hot head f_oh works as in FixMatch. The semantic head f_sc predicts the label
vector of the class, and its pseudo-labels are retained when a *group* of similar classes is likely enough. Each head
also learns from the pseudo-labels of the other (co-training). Our variant is `semco.methods.semco_plus`. The paper's
settings outside the method (optimiser, schedule, data) are in the recipe ``paper``.

Shapes: B labelled images, U unlabelled images, K classes, d embedding size, Q groups. M (K, d) are the label vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field, PositiveFloat
from torch import Tensor

from semco import pseudo_labels as pl
from semco.config import MethodConfig, Unit
from semco.errors import UserError
from semco.losses import cosine_loss, cross_entropy, masked_mean, soft_cross_entropy
from semco.methods.base import Forward, Method
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts


class CoTrainingConfig(MethodConfig):
    """The weights of the losses, and the scale of the class scores, which the paper leaves open."""

    lambda_u: float = Field(default=1.0, ge=0)
    """Weight of the losses on unlabelled images, Eq. 9."""
    lambda_co: float = Field(default=1.0, ge=0)
    """Weight of the co-training loss, Eq. 9; 0 turns co-training off."""
    semantic_weight: float = Field(default=3.0, ge=0)
    """Factor of every cosine loss, because cosine losses are smaller than cross-entropies (supplement). NOTE: the paper
    says "the Semantic Classifier loss"; as in the authors' code, that includes its half of the co-training loss."""
    scale: PositiveFloat | Literal["solved", "authors"] = "solved"
    """Scale s of the cosines in p = softmax(s cos(q, M)); "solved": a perfect prediction scores perfect_score on
    average; "authors": the factor of the authors' released code. NOTE: the paper says only "normalizing"."""
    perfect_score: float = Field(default=0.9, gt=0, lt=1)
    """Mean score of a perfect prediction with scale=solved. NOTE: the paper gives no value; the authors' code states
    this criterion for its own factor."""
    semantic_loss: Literal["cosine", "cross_entropy"] = "cosine"
    """Loss of the semantic head. "cross_entropy", for labels.targets=one_hot: it predicts logits as the one-hot head
    does, and only grouping is left to tell the two apart (ablation of Table 4)."""


Loss = Callable[[Tensor, Tensor], Tensor]
SEMANTIC_LOSSES: dict[str, Loss] = {"cosine": cosine_loss, "cross_entropy": soft_cross_entropy}


def check_semantic_loss(config: CoTrainingConfig, task: Task) -> None:
    """Refuse a cross-entropy against label vectors that are no distributions over the classes."""
    is_one_hot = task.label_vectors.shape[0] == task.label_vectors.shape[1]
    if config.semantic_loss == "cross_entropy" and not is_one_hot:
        raise UserError("method.semantic_loss=cross_entropy needs one-hot targets: set labels.targets=one_hot.")


class SemCoConfig(CoTrainingConfig):
    name: Literal["semco"] = "semco"
    tau_e: Unit = 0.7
    """Threshold of the semantic head for a group score, Eq. 4."""
    tau_o: Unit = 0.95
    """Threshold of the one-hot head for a class probability, Eq. 7."""
    on_disagreement: Literal["both", "discard"] = "both"
    """When both heads are confident of different classes: both pseudo-labels count in the co-training loss, or neither
    (the alternative that the paper rejected)."""


class SemCo(Method[SemCoConfig]):
    """Label groups and co-training, as in the paper."""

    name = "semco"
    title = "SemCo (Nassar et al. 2021)"
    Config = SemCoConfig
    views = ViewCounts(labelled_weak=1, unlabelled_weak=1, unlabelled_strong=1)
    heads = ("one_hot", "semantic")
    best_in_group = False  # Eq. 8: the semantic head teaches argmax(p)
    label_vectors: Tensor  # (K, d): M

    def __init__(self, config: SemCoConfig, task: Task) -> None:
        super().__init__(config, task)
        check_semantic_loss(config, task)
        self.register_buffer("label_vectors", task.label_vectors.clone(), persistent=False)
        self.groups = pl.ClassGroups(task.group_ids)
        self.scale = pl.choose_scale(config.scale, config.perfect_score, task)
        self.semantic_policy = pl.FixedThreshold(config.tau_e)  # eta^sc, Eq. 4
        self.one_hot_policy = pl.FixedThreshold(config.tau_o)  # eta^oh, Eq. 7

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:  # noqa: ARG002
        x, u = batch.labelled, batch.unlabelled
        step = forward.begin(labelled=x.weak[0], strong=u.strong[0], no_grad={"weak": u.weak[0]})
        pseudo = self.pseudo_labels(step.targets["weak"], batch.unlabelled_index)
        one_hot, semantic = pseudo["one_hot"], pseudo["semantic"]
        outputs = step.finish(strong=one_hot.weights + semantic.weights > 0)
        assert isinstance(semantic, pl.SemanticPseudoLabels)
        disagreement = pl.disagreement(one_hot, semantic)
        keep = 1.0 - disagreement * (self.config.on_disagreement == "discard")
        loss = SEMANTIC_LOSSES[self.config.semantic_loss]
        losses = semco_losses(
            outputs["labelled"], outputs["strong"], batch.class_ids, self.label_vectors, one_hot, semantic, loss, keep
        )
        metrics = {
            "mask_one_hot": one_hot.weights.mean(),
            "mask_semantic": semantic.weights.mean(),
            "disagreement": disagreement.mean(),
        }
        return StepResult(losses, loss_weights(self.config), metrics, pseudo)

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> dict[str, PseudoLabels]:  # noqa: ARG002
        scores = self.semantic_scores(pl.embedding_of(weak))  # p and g
        eta_sc = self.semantic_policy.weights(scores.groups)  # Eq. 4
        semantic = pl.semantic_pseudo_labels(scores, self.label_vectors, self.groups, eta_sc, self.best_in_group)
        return {"one_hot": pl.one_hot_pseudo_labels(weak.logits, self.one_hot_policy), "semantic": semantic}

    def semantic_scores(self, embedding: Tensor) -> pl.SemanticScores:
        """Return class scores p (U, K) and group scores g (U, Q) of embeddings q (U, d)."""
        assert self.scale is not None
        if self.config.semantic_loss == "cross_entropy":
            return pl.logit_scores(embedding, self.groups)
        return pl.paper_scores(embedding, self.label_vectors, self.groups, self.scale)


def semco_losses(
    labelled: Outputs,
    strong: Outputs,
    class_ids: Tensor,
    M: Tensor,
    one_hot: PseudoLabels,
    semantic: pl.SemanticPseudoLabels,
    semantic_loss: Loss = cosine_loss,
    keep: Tensor | float = 1.0,
) -> dict[str, Tensor]:
    """Return the losses of Eq. 3 to 8, unweighted; ``keep`` (U,) is 0 for images left out of co-training.

    ``semantic_loss`` is C of the paper; with another one the semantic head predicts one-hot targets.
    """
    x_sc, x_oh = pl.embedding_of(labelled), labelled.logits  # f_sc(x) (B, d), f_oh(x) (B, K)
    u_sc, u_oh = pl.embedding_of(strong), strong.logits  # f_sc(A_s(u)) (U, d), f_oh(A_s(u)) (U, K)
    from_one_hot, from_semantic = M[one_hot.class_ids], semantic.class_ids  # M^T y (U, d), argmax(p) (U,)
    return {
        "supervised_semantic": semantic_loss(x_sc, M[class_ids]).mean(),  # Eq. 3
        "unlabelled_semantic": masked_mean(semantic_loss(u_sc, semantic.target), semantic.weights),  # Eq. 5
        "supervised_one_hot": cross_entropy(x_oh, class_ids).mean(),  # Eq. 6
        "unlabelled_one_hot": masked_mean(cross_entropy(u_oh, one_hot.class_ids), one_hot.weights),  # Eq. 7
        "cotraining_semantic": masked_mean(semantic_loss(u_sc, from_one_hot), one_hot.weights * keep),  # Eq. 8
        "cotraining_one_hot": masked_mean(cross_entropy(u_oh, from_semantic), semantic.weights * keep),  # Eq. 8
    }


def loss_weights(config: CoTrainingConfig) -> dict[str, float]:
    """Return the weights of Eq. 9, which `StepResult.total` adds up; cosine losses also have ``semantic_weight``."""
    return {
        "supervised_semantic": config.semantic_weight,
        "unlabelled_semantic": config.lambda_u * config.semantic_weight,
        "supervised_one_hot": 1.0,
        "unlabelled_one_hot": config.lambda_u,
        "cotraining_semantic": config.lambda_co * config.semantic_weight,
        "cotraining_one_hot": config.lambda_co,
    }
