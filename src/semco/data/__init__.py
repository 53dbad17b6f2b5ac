"""From images on a disk to the batches of a step."""

from semco.data.batches import Batches, Prefetch
from semco.data.datasets import UNLABELLED, Dataset, Report
from semco.data.randomness import generator
from semco.data.sources import REGISTERED, load
from semco.data.split import Split, make_split

__all__ = [
    "REGISTERED",
    "UNLABELLED",
    "Batches",
    "Dataset",
    "Prefetch",
    "Report",
    "Split",
    "generator",
    "load",
    "make_split",
]
