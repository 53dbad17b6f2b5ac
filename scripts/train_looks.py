"""Measure the visual similarity of CIFAR-100's classes with a small network trained on all labels.

    python scripts/train_looks.py CIFAR_FOLDER looks.npy [--epochs 10]

CIFAR_FOLDER contains the official files ``train`` and ``test``. The network learns the fine labels. The similarity of
two classes is the cosine of their mean features over the test images, after subtracting the mean of all classes. The
result is a (100, 100) matrix in the order of the class ids, which is the alphabetical order of the class names;
`semco labels score` compares the cosines of label vectors with it.
"""

from __future__ import annotations

import argparse
import io
import pickle
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH, RATE = 128, 0.1
MEAN, STD = (0.507, 0.487, 0.441), (0.267, 0.256, 0.276)


class PlainArrays(pickle.Unpickler):
    """Reads the official files, which are pickles, and accepts only the types that NumPy arrays need."""

    def find_class(self, module: str, name: str) -> object:
        if module.startswith("numpy") and name in ("_reconstruct", "ndarray", "dtype"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} does not belong in a CIFAR-100 file")


def read(path: Path) -> tuple[Tensor, Tensor]:
    """Return normalised images (N, 3, 32, 32) and fine labels (N,)."""
    content = PlainArrays(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    images = torch.from_numpy(np.asarray(content[b"data"])).view(-1, 3, 32, 32).float() / 255
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    return (images - mean) / std, torch.tensor(content[b"fine_labels"])


def block(inputs: int, outputs: int, stride: int = 1, pool: bool = False) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(), *([nn.MaxPool2d(2)] if pool else []))


def network() -> tuple[nn.Sequential, nn.Linear]:
    """Return a network that computes features (N, 256), and a linear classifier."""
    body = [block(3, 48, stride=2), block(48, 96, pool=True), block(96, 192, pool=True), block(192, 256)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.Linear(256, 100)


def augment(images: Tensor) -> Tensor:
    """Flip each image with probability 0.5 and crop all images at the same random position."""
    flipped = torch.rand(len(images)) < 0.5
    images = torch.where(flipped.view(-1, 1, 1, 1), images.flip(3), images)
    top, left = torch.randint(0, 9, (2,)).tolist()
    return F.pad(images, (4, 4, 4, 4), mode="reflect")[:, :, top : top + 32, left : left + 32]


def train(features: nn.Sequential, head: nn.Linear, images: Tensor, labels: Tensor, epochs: int) -> None:
    model = nn.Sequential(features, head).train()
    steps = len(images) // BATCH
    optimiser = torch.optim.SGD(model.parameters(), RATE, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=epochs * steps)
    for epoch in range(epochs):
        order = torch.randperm(len(images))
        for step in range(steps):
            chosen = order[step * BATCH : (step + 1) * BATCH]
            loss = F.cross_entropy(model(augment(images[chosen])), labels[chosen], label_smoothing=0.1)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        print(f"epoch {epoch + 1}/{epochs}: loss {loss.item():.3f}", flush=True)
    model.eval()


def visual_similarity(features: Tensor, labels: Tensor) -> Tensor:
    """Return the cosines (100, 100) of the classes' centred mean features, from features (N, 256) and labels (N,)."""
    means = torch.stack([features[labels == k].mean(0) for k in range(100)])
    unit = F.normalize(means - means.mean(0), dim=1)
    return unit @ unit.T


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    features, head = network()
    train(features, head, *read(arguments.folder / "train"), arguments.epochs)
    images, labels = read(arguments.folder / "test")
    with torch.no_grad():
        test_features = torch.cat([features(part) for part in images.split(500)])
        print(f"accuracy on the test images: {(head(test_features).argmax(1) == labels).float().mean():.3f}")
    np.save(arguments.out, visual_similarity(test_features, labels).numpy())


if __name__ == "__main__":
    main()
