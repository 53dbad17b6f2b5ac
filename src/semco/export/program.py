"""Everything from photos to probabilities as one module that can be exported: its outputs are tensors only.

Shapes: N photos, H and W pixels, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from semco.evaluation.model_file import SavedModel
from semco.evaluation.probabilities import Head, Scorer
from semco.models import Network
from semco.models.backbone import close_up, features_of_views
from semco.predict.engine import About, about_of
from semco.predict.onnx.engine import CHOSEN, FAMILIARITY

# Pillow's bicubic filter: a = -0.5, two source pixels to each side.
CUBIC, SUPPORT = -0.5, 2.0
# Pillow's weights of red, green and blue in grey, in 1/65536.
GREY = (19595.0, 38470.0, 7471.0)


class Preprocessing(nn.Module):
    """Photos (N, H, W, 3) uint8 to normalised images (N, C, h, w) float32."""

    mean: Tensor
    std: Tensor
    grey: Tensor

    def __init__(
        self,
        image_size: tuple[int, int],
        channels: int,
        mean: Sequence[float],
        std: Sequence[float],
        *,
        branches: bool = False,
    ) -> None:
        super().__init__()
        self.image_size, self.channels = image_size, channels
        self.side, self._branches = max(image_size), branches
        self.register_buffer("mean", torch.tensor(mean).float().view(-1, 1, 1) * 255)
        self.register_buffer("std", torch.tensor(std).float().view(-1, 1, 1) * 255)
        self.register_buffer("grey", torch.tensor(GREY).view(1, 3, 1, 1))

    def forward(self, photos: Tensor) -> Tensor:
        pixels = self.square(photos)
        return (self.fit(pixels) - self.mean) / self.std

    def square(self, photos: Tensor) -> Tensor:
        """Return the centre squares (N, 3, S, S) float32, with whole levels."""
        if not self._branches:
            return self._resample(photos)
        fits = (photos.shape[1] == self.side) & (photos.shape[2] == self.side)
        squares: Tensor = torch.cond(fits, self._keep, self._resample, (photos,))
        return squares

    def _keep(self, photos: Tensor) -> Tensor:
        """Return photos (N, S, S, 3) as squares, with a shape that is known when the graph is made."""
        every = torch.arange(self.side, device=photos.device)
        return photos.index_select(1, every).index_select(2, every).permute(0, 3, 1, 2).float().contiguous()

    def _resample(self, photos: Tensor) -> Tensor:
        rows = torch.arange(photos.shape[1], dtype=torch.float32, device=photos.device)
        columns = torch.arange(photos.shape[2], dtype=torch.float32, device=photos.device)
        # As tensors and not as numbers, because exported graphs keep the arithmetic of tensors.
        height, width = rows.amax(dim=0) + 1, columns.amax(dim=0) + 1
        shorter = torch.minimum(height, width)
        images = photos.permute(0, 3, 1, 2).float()  # (N, 3, H, W)
        across = round_levels(images @ resampling(columns, width, shorter, self.side).T)  # (N, 3, H, S)
        return round_levels(resampling(rows, height, shorter, self.side) @ across)

    def fit(self, squares: Tensor) -> Tensor:
        """Return squares (N, 3, S, S) with the height, width and channels of the model."""
        height, width = self.image_size
        top, left = (self.side - height) // 2, (self.side - width) // 2
        pixels = squares[:, :, top : top + height, left : left + width]
        if self.channels == 3:
            return pixels
        # Pillow: (19595 R + 38470 G + 7471 B + 32768) >> 16; below 2^24, so exact in float32.
        return ((pixels * self.grey).sum(dim=1, keepdim=True) / 65536 + 0.5).floor()


def round_levels(values: Tensor) -> Tensor:
    """Return values rounded to whole levels from 0 to 255, halves up, as Pillow does."""
    return (values + 0.5).floor().clamp(0, 255)


def resampling(positions: Tensor, length: Tensor, side: Tensor, target: int) -> Tensor:
    """Return the weights (S, L) of the L source pixels at ``positions`` (L,) for each of S = ``target`` pixels.

    The source is a segment of ``side`` pixels in the middle of ``length``; both are tensors ().
    """
    scale = side / target
    widened = scale.clamp(min=1.0)
    start = (length - side) / 2
    wanted = torch.arange(target, dtype=torch.float32, device=positions.device)
    centres = (start + (wanted + 0.5) * scale)[:, None]  # (S, 1)
    # Pillow looks only at source pixels from floor(centre - reach + 0.5) up to floor(centre + reach + 0.5).
    reach = SUPPORT * widened
    first = (centres - reach + 0.5).floor().clamp(min=0.0)
    last = torch.minimum((centres + reach + 0.5).floor(), length)
    inside = ((positions >= first) & (positions < last)).float()
    weights = cubic((positions + 0.5 - centres) / widened) * inside
    return weights / weights.sum(dim=1, keepdim=True)


def cubic(distance: Tensor) -> Tensor:
    """Return the value of the bicubic filter at a distance in pixels."""
    x = distance.abs()
    near = ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * CUBIC
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


class BackboneWithProducts(nn.Module):
    """A backbone that makes close-ups by two products with constant matrices.

    They are the values of `close_up`; its bicubic resize took about half of the time in ONNX Runtime.
    """

    rows: Tensor  # (H, H)
    columns: Tensor  # (W, W)

    def __init__(self, backbone: nn.Module, image_size: tuple[int, int]) -> None:
        super().__init__()
        self.backbone = backbone
        height, width = map(torch.eye, image_size)
        # The close-up is linear in the rows and in the columns: its values for the unit vectors are the matrices.
        self.register_buffer("rows", close_up(height[:, None, :, None])[:, 0, :, 0].T.contiguous())
        self.register_buffer("columns", close_up(width[:, None, None])[:, 0, 0].contiguous())

    def enlarge(self, images: Tensor) -> Tensor:
        """Return the close-ups of images (N, C, H, W)."""
        return self.rows @ (images @ self.columns)

    def views(self, images: Tensor, *, has_close_up: bool) -> Tensor:
        """Return the features (N, V, F) of images, as `Backbone.views` does."""
        return features_of_views(self.backbone, images, has_close_up, self.enlarge)


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

    def __init__(self, model: SavedModel, head: Head | None = None, *, branches: bool = False) -> None:
        """With ``branches``, photos of the model's size are not resampled, which takes a tenth of the time."""
        super().__init__()
        described = model.description
        self.about: About = about_of(described, head)
        size, channels = described.image_size, described.channels
        self.preprocessing = Preprocessing(size, channels, described.mean, described.std, branches=branches)
        network: Network = model.network.to("cpu").to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        if network.transform is not None and network.transform.has_close_up:
            backbone: Any = BackboneWithProducts(network.backbone, described.image_size)
            network = Network(backbone, dict(network.heads), network.transform, network.familiarity)
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
