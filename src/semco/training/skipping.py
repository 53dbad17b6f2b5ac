"""Leave images whose pseudo-labels have zero weight out of the pass with gradient.

A pseudo-label of weight 0 adds nothing to any loss, so its strong view need not run. Normalisation over the batch would
see other images then; with any other normalisation losses and gradients are the same up to rounding.

Shapes: N images of a view, n of them that run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from semco.types import Outputs

# The number of images that run is rounded up to a multiple of N / PARTS.
PARTS = 16


@dataclass(frozen=True)
class TargetsFirst:
    """`semco.types.Passes` in which the views with gradient wait until the targets are known."""

    targets: dict[str, Outputs]
    run: Callable[..., dict[str, Outputs]]
    views: Mapping[str, Tensor]
    parts: int

    def finish(self, **taught: Tensor) -> dict[str, Outputs]:
        rows = {name: rows_to_run(counts, self.parts) for name, counts in taught.items()}
        outputs = self.run(**{name: select(view, rows.get(name)) for name, view in self.views.items()})
        for name, chosen in rows.items():
            outputs[name] = spread(outputs[name], chosen, len(self.views[name]))
        return self.targets | outputs


def rows_to_run(taught: Tensor, parts: int) -> Tensor:
    """Return the positions (n,) of images that have a weight (N,) bool, and of others up to a multiple of N / parts.

    This waits for the device.
    """
    part = math.ceil(len(taught) / parts)
    count = math.ceil(int(taught.sum()) / part) * part
    return taught.logical_not().byte().argsort(stable=True)[:count].sort().values


def select(view: Tensor, rows: Tensor | None) -> Tensor:
    """Return rows of a view (N, ...) in its memory format, or all of it."""
    if rows is None or len(rows) == len(view):
        return view
    is_channels_last = view.dim() == 4 and view.is_contiguous(memory_format=torch.channels_last)
    kept = view.index_select(0, rows)
    return kept.contiguous(memory_format=torch.channels_last) if is_channels_last else kept


def spread(outputs: Outputs, rows: Tensor, count: int) -> Outputs:
    """Return outputs (n, ...) at their rows of N = ``count``, with zeros elsewhere."""
    if len(rows) == count:
        return outputs
    present = {each.name: getattr(outputs, each.name) for each in fields(outputs)}
    wide = {
        name: value.new_zeros((count, *value.shape[1:])).index_copy(0, rows, value)
        for name, value in present.items()
        if value is not None
    }
    return Outputs(**wide)
