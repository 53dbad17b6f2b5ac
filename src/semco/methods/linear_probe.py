"""Linear probe: logistic regression on the features of a frozen backbone, the yardstick for pretrained weights."""

from __future__ import annotations

from semco.methods.supervised import Supervised, SupervisedConfig


class LinearProbeConfig(SupervisedConfig):
    name: str = "linear_probe"


class LinearProbe(Supervised):
    """The one-hot head is fitted to the features of the labelled images; cross-validation chooses its penalty.

    The loss is that of supervised learning. L-BFGS minimises it before the first step (`semco.evaluation.probe`), so
    the loop takes none.
    """

    name = "linear_probe"
    title = "Linear probe (logistic regression on frozen features)"
    Config = LinearProbeConfig
    takes_steps = False
