"""Everything from photos to probabilities as one module that can be exported: its outputs are tensors only.

Shapes: N photos, H and W pixels, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from semco.evaluation.model_file import SavedModel
from semco.evaluation.probabilities import Head, Scorer
from semco.export.preprocessing import Preprocessing
from semco.models import Network
from semco.predict.engine import About, about_of
from semco.predict.onnx.engine import CHOSEN, FAMILIARITY


class Classifier(nn.Module):
    """Normalised images (N, C, h, w) to probabilities (N, K) of the chosen head, of each head, and familiarity (N,)."""

    def __init__(self, network: Network, scorers: tuple[Scorer, ...]) -> None:
        super().__init__()
        self.network = network
        self._scorers = scorers

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        outputs = self.network(images)
        found = tuple(scorer(outputs) for scorer in self._scorers)
        return found if outputs.familiarity is None else (*found, outputs.familiarity)


class Program(nn.Module):
    """Photos (N, H, W, 3) uint8 to a tuple of probabilities (N, K), and familiarity (N,) if the model has it."""

    def __init__(self, model: SavedModel, head: Head | None = None) -> None:
        super().__init__()
        described = model.description
        self.about: About = about_of(described, head)
        self.preprocessing = Preprocessing(described.image_size, described.channels, described.mean, described.std)
        network = model.network.to("cpu").to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        vectors = model.label_vectors.cpu()
        scorers = tuple(Scorer(each, vectors, described.scale) for each in (self.about.head, *self.more_heads))
        self.classifier = Classifier(network.eval().requires_grad_(False), scorers)

    @property
    def more_heads(self) -> tuple[Head, ...]:
        """The heads exported as separate outputs."""
        return self.about.heads if len(self.about.heads) > 1 else ()

    @property
    def output_names(self) -> list[str]:
        familiarity = [FAMILIARITY] if self.about.thresholds else []
        return [CHOSEN, *(f"{CHOSEN}_{head}" for head in self.more_heads), *familiarity]

    def forward(self, photos: Tensor) -> tuple[Tensor, ...]:
        outputs: tuple[Tensor, ...] = self.classifier(self.preprocessing(photos))
        return outputs

    def example(self) -> Tensor:
        """Return photos (2, H, W, 3) that are larger than the images of the model, to trace the program with."""
        side = self.preprocessing.side
        return torch.randint(0, 256, (2, side + 5, side + 9, 3), dtype=torch.uint8)
