"""AdaMatch: A Unified Approach to Semi-Supervised Learning and Domain Adaptation (Berthelot et al. 2022).

Shapes: B labelled images, U unlabelled images, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from semco.config import Unit
from semco.losses import cross_entropy, masked_mean
from semco.methods.base import Forward, Method, cosine_ramp
from semco.methods.fixmatch import ConsistencyConfig
from semco.pseudo_labels import DistributionAlignment, soft_pseudo_labels
from semco.pseudo_labels.thresholds import RunningRate
from semco.types import Batch, Outputs, Progress, PseudoLabels, StepResult, Task, ViewCounts


class AdaMatchConfig(ConsistencyConfig):
    name: str = "adamatch"
    tau: Unit = 0.9
    """Threshold, as a fraction of the mean confidence on the weak views of the labelled images."""
    ramp_up: Unit = 0.5
    """Fraction of the run over which the weight of the loss on unlabelled images grows."""
    decay: Unit = 0.999
    """Decay of the running mean prediction on labelled images."""
    warmup: bool = True
    """Let that running mean follow faster at first, as training.ema_warmup does for the weights. NOTE: AdaMatch has no
    warm-up."""


class AdaMatch(Method[AdaMatchConfig]):
    """FixMatch with aligned pseudo-labels and a threshold relative to the confidence on labelled images."""

    name = "adamatch"
    title = "AdaMatch (Berthelot et al. 2022)"
    Config = AdaMatchConfig
    views = ViewCounts(labelled_weak=1, labelled_strong=1, unlabelled_weak=1, unlabelled_strong=1)
    expected: Tensor  # (K,), running mean of the predictions on labelled images
    threshold: Tensor  # (), c_tau of the last step

    def __init__(self, config: AdaMatchConfig, task: Task) -> None:
        super().__init__(config, task)
        self.alignment = DistributionAlignment(torch.ones(task.num_classes))
        self.rate = RunningRate(config.decay, config.warmup)
        self.register_buffer("expected", torch.full((task.num_classes,), 1.0 / task.num_classes))
        self.register_buffer("threshold", torch.tensor(config.tau))

    def compute(self, batch: Batch, forward: Forward, progress: Progress) -> StepResult:
        labelled = {"labelled": batch.labelled.weak[0], "labelled_strong": batch.labelled.strong[0]}
        joint = forward(**labelled, strong=batch.unlabelled.strong[0], no_grad={"weak": batch.unlabelled.weak[0]})
        alone = forward.without_statistics(**labelled)
        plain, distorted = (
            interpolate_randomly(joint[name].logits, alone[name].logits, progress.generator) for name in labelled
        )
        self.update(plain, joint["weak"].logits, progress)
        pseudo = self.pseudo_labels(joint["weak"], batch.unlabelled_index)["one_hot"]
        to_pseudo_labels = cross_entropy(joint["strong"].logits, pseudo.class_ids)
        return StepResult(
            losses={
                "supervised": cross_entropy(plain, batch.class_ids).mean(),
                "supervised_strong": cross_entropy(distorted, batch.class_ids).mean(),
                "unlabelled": masked_mean(to_pseudo_labels, pseudo.weights),
            },
            weights={
                "supervised": 0.5,
                "supervised_strong": 0.5,
                "unlabelled": self.config.lambda_u * cosine_ramp(progress.fraction, self.config.ramp_up),
            },
            metrics={"mask_one_hot": pseudo.weights.mean()},
            pseudo_labels={"one_hot": pseudo},
        )

    @torch.no_grad()
    def update(self, labelled: Tensor, weak: Tensor, progress: Progress) -> None:
        """Update the mean predictions and the threshold from logits (B, K) and (U, K) on weak views of this step."""
        probabilities = progress.gather(labelled).softmax(dim=-1)
        self.expected.lerp_(probabilities.mean(dim=0), self.rate())
        self.threshold.copy_(self.config.tau * probabilities.amax(dim=-1).mean())
        self.alignment.remember(progress.gather(weak).softmax(dim=-1))

    def pseudo_labels(self, weak: Outputs, index: Tensor) -> dict[str, PseudoLabels]:  # noqa: ARG002
        aligned = self.alignment.align(weak.logits.softmax(dim=-1), self.expected)
        return {"one_hot": soft_pseudo_labels(aligned, aligned.amax(dim=-1) >= self.threshold)}


def interpolate_randomly(joint: Tensor, alone: Tensor, generator: torch.Generator) -> Tensor:
    """Return lambda z' + (1 - lambda) z'' for logits (B, K) and (B, K), with lambda ~ U(0, 1) for each logit.

    z' were computed in a batch with the unlabelled images and z'' without them: the labelled logits then fit the
    statistics of batch normalisation of both.
    """
    return alone.lerp(joint, torch.rand(joint.shape, generator=generator).to(joint))
