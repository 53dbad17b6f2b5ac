"""Facts about the data and the machine that the rules use, measured once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from semco.config import LabelsConfig
from semco.labels import LabelEmbeddings

if TYPE_CHECKING:
    from semco.models.engines import LayerEngine


@dataclass(frozen=True)
class DataFacts:
    """Facts about the data of a run."""

    num_classes: int
    num_labels: int  # labelled images that the configuration asks for
    spare_labels: int  # training images with a label that it does not ask for
    images: int  # training images
    image_size: tuple[int, int]  # height and width
    channels: int
    has_validation: bool  # the source itself holds images out for validation
    attributes: Path | None  # a table of class attributes beside the images
    # The label vectors of the classes from a source that the configuration names; None if these names have none.
    label_vectors: Callable[[LabelsConfig], LabelEmbeddings | None]


@dataclass(frozen=True)
class Machine:
    """Facts about this machine."""

    has_gpu: bool
    has_bfloat16: bool = False  # the GPU computes in bfloat16
    engines: frozenset[LayerEngine] = frozenset()  # that are installed for frozen layers

    @classmethod
    def of_this_process(cls) -> Machine:
        """Return the facts about the machine that this process runs on."""
        import torch

        from semco.models.backbone import has_bfloat16
        from semco.models.engines import installed_engines

        has_gpu = torch.cuda.is_available()
        return cls(has_gpu, has_gpu and has_bfloat16(torch.device("cuda")), installed_engines())
