"""A training state in one safetensors file: tensors by name, everything else as JSON in its header.

One file, renamed into place, is either whole or not there; and nothing is ever unpickled. The sampler's position and
every generator's state are functions of the seed and the step, so the step stands for them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from semco.errors import UserError
from semco.files import atomic_path, is_leftover

FORMAT = 3
KEPT = 2
Loaded = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and state


class DamagedError(Exception):
    """The file is not what was written."""


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"step-{step:09d}.safetensors"


def save_checkpoint(folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Write the state after ``step`` steps and keep only the newest two."""
    target = checkpoint_path(folder, step)
    stored = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    told = {"format": FORMAT, "step": step, **state}
    header = {"semco": json.dumps({**told, "digest": digest(stored, told)})}
    with atomic_path(target) as temporary:
        save_file(stored, temporary, header)
    for old in (*checkpoints(folder)[:-KEPT], *filter(is_leftover, folder.iterdir())):
        old.unlink()
    return target


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, oldest first."""
    return sorted(folder.glob("step-*.safetensors"))


def load_checkpoint(folder: Path) -> Loaded | None:
    """Tensors and state of the newest readable checkpoint, or None where there is none."""
    found = checkpoints(folder)
    for path in reversed(found):
        try:
            return _read(path)
        except (SafetensorError, DamagedError):
            continue  # on disk: the one before it is whole
    if found:
        raise UserError(f"no checkpoint in {folder} can be read; train again into another folder.")
    return None


def _read(path: Path) -> Loaded:
    with safe_open(path, framework="pt") as file:
        state, written = _header(file.metadata())
        if state["format"] != FORMAT:
            raise UserError(f"{path} has format {state['format']}; this version reads format {FORMAT}.")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if digest(tensors, state) != written:
        raise DamagedError
    return tensors, state


def _header(metadata: Mapping[str, str] | None) -> tuple[dict[str, Any], str]:
    """The state, which says its format, and the digest that was written with it."""
    try:
        state = json.loads((metadata or {})["semco"])
        written = str(state.pop("digest"))
        return {"format": state.pop("format"), **state}, written
    except (KeyError, TypeError, AttributeError, ValueError):
        raise DamagedError from None


def digest(tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> str:
    """Of the state, and of names and bytes: a file may have its length and yet not what was written."""
    total = hashlib.blake2b(json.dumps(state, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(f"{prefix}."): t for n, t in tensors.items() if n.startswith(f"{prefix}.")}


def optimiser_tensors(optimiser: torch.optim.SGD) -> dict[str, Tensor]:
    """Momentum of each parameter, by its number."""
    momenta = [optimiser.state[p].get("momentum_buffer") for p in _parameters(optimiser)]
    return {str(i): m for i, m in enumerate(momenta) if m is not None}


def load_optimiser(optimiser: torch.optim.SGD, tensors: Mapping[str, Tensor]) -> None:
    for i, parameter in enumerate(_parameters(optimiser)):
        if str(i) in tensors:
            buffer = torch.empty_like(parameter).copy_(tensors[str(i)])
            optimiser.state[parameter]["momentum_buffer"] = buffer


def _parameters(optimiser: torch.optim.SGD) -> list[nn.Parameter]:
    return [p for group in optimiser.param_groups for p in group["params"]]
