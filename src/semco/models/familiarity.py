"""How much a photo looks like those of the classes, by the features of the backbone; what tells "none of these".

Shapes: N images, F features, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

# Images whose features are read at a time.
READ = 1024


class Familiarity(nn.Module):
    """(N, F) -> (N,): the largest cosine between the features of an image and the mean features of a class."""

    means: Tensor  # (K, F), of length 1

    def __init__(self, means: Tensor) -> None:
        super().__init__()
        self.register_buffer("means", means)

    def forward(self, features: Tensor) -> Tensor:
        return (normalize(features.float(), dim=1) @ self.means.T).amax(dim=1)


def fit_familiarity(
    read: Callable[[Tensor], Tensor], class_ids: Tensor, num_classes: int
) -> tuple[Familiarity, Tensor]:
    """Return the familiarity to the classes (N,) of labelled images, and its values (n,) for them, each without its own
    label.

    ``read`` returns the features (m, F) of some of the images, by position (m,). An image that is the only one of its
    class has no value: without it there would be nothing to compare it with.
    """

    def parts() -> Iterator[tuple[Tensor, Tensor]]:
        for position in torch.arange(len(class_ids)).split(READ):
            yield normalize(read(position).cpu().float(), dim=1), class_ids[position]

    sums = sum(_sums(rows, own, num_classes) for rows, own in parts())
    assert isinstance(sums, Tensor)
    counts = torch.bincount(class_ids, minlength=num_classes)
    values = [_without_own_label(rows, own, sums)[counts[own] > 1] for rows, own in parts()]
    return Familiarity(normalize(sums, dim=1)), torch.cat(values)


def _sums(rows: Tensor, class_ids: Tensor, num_classes: int) -> Tensor:
    """Return the sums (K, F) of the rows of each class."""
    return torch.zeros(num_classes, rows.shape[1]).index_add_(0, class_ids, rows)


def _without_own_label(rows: Tensor, class_ids: Tensor, sums: Tensor) -> Tensor:
    """Return the familiarity of labelled rows (m, F), with each row taken out of the sum of its class."""
    cosines = rows @ normalize(sums, dim=1).T
    own = normalize(sums[class_ids] - rows, dim=1)
    cosines[torch.arange(len(rows)), class_ids] = (rows * own).sum(dim=1)
    return cosines.amax(dim=1)
