"""The whole training set run through the network, for methods that relabel it regularly.

Shapes: N images, F features, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from semco.data.inputs import Inputs, images_at_a_time
from semco.distributed.processes import Processes, gather_uneven_rows
from semco.training.allocator import with_reused_memory
from semco.types import Outputs


class NetworkPool:
    """`semco.methods.base.Pool`: outputs for labelled and unlabelled images, in the order of their indices.

    Each process runs its share of the images and gets all outputs.
    """

    def __init__(
        self,
        network: nn.Module,
        inputs: Inputs,
        labels: Tensor,
        labelled: Tensor,
        unlabelled: Tensor,
        *,
        device: torch.device,
        batch_size: int = 512,
        processes: Processes | None = None,
    ) -> None:
        self.class_ids = labels[labelled].to(device)
        self._network, self._inputs, self._device = network, inputs, device
        self._labelled, self._unlabelled = labelled, unlabelled
        self._batch_size = images_at_a_time(batch_size, inputs.shape)
        self._processes = processes or Processes()

    def labelled(self) -> Outputs:
        return self._outputs(self._labelled)

    def unlabelled(self) -> Outputs:
        return self._outputs(self._unlabelled)

    @torch.no_grad()
    def _outputs(self, index: Tensor) -> Outputs:
        self._network.eval()
        parts = list(with_reused_memory(self._batches(index[self._processes.share(len(index))]), self._device))
        columns = ("features", "logits", "embedding", "rotation")
        return Outputs(**{c: self._join([getattr(part, c) for part in parts]) for c in columns})  # type: ignore[arg-type]

    def _batches(self, index: Tensor) -> Iterator[Outputs]:
        for chunk in index.split(self._batch_size):
            yield self._network(self._inputs.plain(chunk))

    def _join(self, parts: list[Tensor | None]) -> Tensor | None:
        """Join one output over all batches and processes."""
        present = [part for part in parts if part is not None]
        return gather_uneven_rows(torch.cat(present), self._processes) if present else None
