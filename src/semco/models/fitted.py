"""Networks whose head is fitted to stored features.

Shapes: N images, V views, F features, D inputs of the head, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from semco.models.backbone import Backbone
from semco.models.network import Network
from semco.models.transform import FeatureTransform


class CachedViews(Backbone):
    """Stands in for a backbone whose features (N, V, F) of several views are stored; the plain view is the first."""

    first_top_layer = 0

    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features

    def layers(self) -> list[nn.Module]:
        return []

    def forward(self, images: Tensor) -> Tensor:
        return images[:, 0]

    def views(self, images: Tensor, *, has_close_up: bool) -> Tensor:
        return images if has_close_up else images[:, :1]


@dataclass(frozen=True)
class LinearHead:
    """A linear classifier: logits = x @ weight.T + bias."""

    weight: Tensor  # (K, D)
    bias: Tensor  # (K,)

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits (N, K) of rows (N, D)."""
        return x @ self.weight.to(x).T + self.bias.to(x)

    def layer(self) -> nn.Linear:
        """Return the head as a layer of a network."""
        classes, size = self.weight.shape
        layer: nn.Linear = nn.utils.skip_init(nn.Linear, size, classes)  # draws no random numbers
        layer.load_state_dict({"weight": self.weight, "bias": self.bias})
        return layer


def network_on_views(features: int, head: LinearHead, transform: FeatureTransform | None) -> Network:
    """Return a network for stored features (N, V, F), in evaluation mode."""
    return Network(CachedViews(features), {"one_hot": head.layer()}, transform).eval().requires_grad_(False)
