"""CNN-13, the network of thirteen layers of Mean Teacher (Tarvainen and Valpola 2017) and Label Propagation.

Shapes: N images, C channels, H and W pixels, F = 128 features.
"""

from __future__ import annotations

from torch import nn

from semco.models.backbone import Backbone, MeanPool
from semco.models.normalisation import Norm, init_convolutions, norm_layer

SLOPE, MOMENTUM, DROPOUT = 0.1, 0.1, 0.5
# Per stage the layers: channels, kernel size, padding. Stages end in pooling and dropout, the last one in a mean.
STAGES = (
    ((128, 3, 1), (128, 3, 1), (128, 3, 1)),
    ((256, 3, 1), (256, 3, 1), (256, 3, 1)),
    ((512, 3, 0), (256, 1, 0), (128, 1, 0)),
)


class CNN13(Backbone):
    """(N, C, H, W) -> (N, 128): nine convolutions in three stages; pooling, dropout and the heads make thirteen layers.

    NOTE: without the input noise and the weight normalisation of the first version; batch norm, as in later code.
    """

    def __init__(self, in_channels: int, norm: Norm) -> None:
        super().__init__()
        self.out_features = STAGES[-1][-1][0]
        stages, inputs = [], in_channels
        for number, stage in enumerate(STAGES):
            parts: list[nn.Module] = []
            for outputs, kernel, padding in stage:
                parts += [nn.Conv2d(inputs, outputs, kernel, padding=padding, bias=False)]
                parts += [norm_layer(norm, outputs, MOMENTUM), nn.LeakyReLU(SLOPE)]
                inputs = outputs
            is_last = number == len(STAGES) - 1
            parts += [MeanPool()] if is_last else [nn.MaxPool2d(2), nn.Dropout(DROPOUT)]
            stages.append(nn.Sequential(*parts))
        self.stages = nn.Sequential(*stages)
        self.first_top_layer = len(STAGES) - 1
        init_convolutions(self)

    def layers(self) -> list[nn.Module]:
        return list(self.stages)
