"""The registered data sets: what they are, what a run on them uses by default, and what to put where. A table of data.

`semco.data.sources` reads them; `semco.data.sources.fetch` downloads those whose licence allows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from semco.download import Source

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FASHION_URL = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"
DOMAINNET_URL = "http://csr.bu.edu/ftp/visda/2019/multi-source/"


@dataclass(frozen=True)
class RegisteredDataset:
    """One row of the table."""

    title: str
    classes: int
    train_images: int
    test_images: int
    image_size: int  # height and width in pixels
    layout: str  # what data.root must contain
    licence: str
    backbone: str | None = None  # None: that of the configuration's default
    eps: float | None = None  # of DBSCAN; None: that of the label vectors
    # Of each channel, of pixels scaled to [0, 1]; None: computed from the training images.
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    is_resized: bool = False  # whether images have other sizes than ``image_size`` and are resized to it
    is_photos: bool = False  # whether runs start from pretrained weights if these are installed
    files: tuple[Source, ...] = ()  # what can be downloaded

    @property
    def is_bundled(self) -> bool:
        return self.layout == "bundled"

    def defaults(self) -> dict[str, dict[str, Any]]:
        """Return the configuration values that a run on this data set starts with."""
        values: dict[str, dict[str, Any]] = {}
        if self.is_resized:
            values["data"] = {"image_size": self.image_size}
        if self.backbone is not None:
            values["model"] = {"backbone": self.backbone}
        if self.eps is not None:
            values["labels"] = {"eps": self.eps}
        return values


REGISTERED_DATASETS: Mapping[str, RegisteredDataset] = MappingProxyType(
    {
        "fashion-mini": RegisteredDataset("a part of Fashion-MNIST", 10, 6_000, 1_000, 28, "bundled", "MIT"),
        "fruit-mini": RegisteredDataset("14 kinds of fruit", 14, 420, 196, 160, "bundled", "MIT", is_photos=True),
        "fashion-mnist": RegisteredDataset(
            "Fashion-MNIST (Xiao et al. 2017)",
            10,
            60_000,
            10_000,
            28,
            "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the two t10k files",
            "MIT",
            files=(
                Source(
                    f"{FASHION_URL}train-images-idx3-ubyte.gz",
                    "train-images-idx3-ubyte.gz",
                    26_421_880,
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                ),
                Source(
                    f"{FASHION_URL}train-labels-idx1-ubyte.gz",
                    "train-labels-idx1-ubyte.gz",
                    29_515,
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                ),
                Source(
                    f"{FASHION_URL}t10k-images-idx3-ubyte.gz",
                    "t10k-images-idx3-ubyte.gz",
                    4_422_102,
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                ),
                Source(
                    f"{FASHION_URL}t10k-labels-idx1-ubyte.gz",
                    "t10k-labels-idx1-ubyte.gz",
                    5_148,
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
            ),
        ),
        "cifar10": RegisteredDataset(
            "CIFAR-10 (Krizhevsky 2009)",
            10,
            50_000,
            10_000,
            32,
            "cifar-10-batches-py/ with the official python files",
            "free; cite the technical report",
            files=(
                Source(
                    "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                    "cifar-10-python.tar.gz",
                    170_498_071,
                    "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                ),
            ),
        ),
        "cifar100": RegisteredDataset(
            "CIFAR-100 (Krizhevsky 2009)",
            100,
            50_000,
            10_000,
            32,
            "cifar-100-python/ with the official python files",
            "free; cite the technical report",
            files=(
                Source(
                    "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
                    "cifar-100-python.tar.gz",
                    169_001_437,
                    "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
                ),
            ),
        ),
        "mini-imagenet": RegisteredDataset(
            "Mini-ImageNet (Vinyals et al. 2016), 500 and 100 images per class",
            100,
            50_000,
            10_000,
            84,
            "folders of classes or WordNet ids, train/ val/ test/ of them, or train.csv, val.csv, test.csv, images/",
            "ImageNet's terms: register at image-net.org; it cannot be downloaded here",
            backbone="resnet18",
            eps=0.3,
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            is_resized=True,
        ),
        "cub200": RegisteredDataset(
            "CUB-200-2011 (Wah et al. 2011), with class attributes",
            200,
            5_994,
            5_794,
            224,
            "CUB_200_2011/ with images/, images.txt, image_class_labels.txt, train_test_split.txt and attributes/",
            "research and education only, not commercial",
            backbone="resnet50",
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            is_resized=True,
            is_photos=True,
            files=(
                Source(
                    "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz?download=1",
                    "CUB_200_2011.tgz",
                    1_150_585_339,
                    "0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081",
                ),
            ),
        ),
        "domainnet-real": RegisteredDataset(
            "DomainNet Real (Peng et al. 2019)",
            345,
            120_906,
            52_041,
            224,
            "real/ with class folders, real_train.txt and real_test.txt",
            "research only, under the fair use notice of its page",
            backbone="resnet50",
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            is_resized=True,
            is_photos=True,
            files=(
                Source(f"{DOMAINNET_URL}real.zip", "real.zip"),
                Source(f"{DOMAINNET_URL}domainnet/txt/real_train.txt", "real_train.txt"),
                Source(f"{DOMAINNET_URL}domainnet/txt/real_test.txt", "real_test.txt"),
            ),
        ),
    }
)
DATASETS = tuple(REGISTERED_DATASETS)
