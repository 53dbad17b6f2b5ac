"""A checkpoint is one safetensors file: tensors by name, everything else as JSON in its header.

One file that is renamed into place is either whole or absent, and nothing is ever unpickled. The position of the
sampler and the state of every random generator are functions of the seed and the step, so only the step is saved.
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
from torch import Tensor

from semco.errors import UserError, made_earlier
from semco.files import atomic_path, remove_leftovers

FORMAT = 1
CHECKPOINTS_KEPT = 2
Checkpoint = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and state


class DamagedError(Exception):
    """The content of a file is not what was written."""


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"step-{step:09d}.safetensors"


def save_checkpoint(folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Write the state after ``step`` steps and keep only the newest two checkpoints."""
    target = checkpoint_path(folder, step)
    stored = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    header = {"format": FORMAT, "step": step, **state}
    metadata = {"semco": json.dumps({**header, "digest": digest(stored, header)})}
    with atomic_path(target) as temporary:
        save_file(stored, temporary, metadata)
    remove_old_checkpoints(folder, step)
    remove_leftovers(folder)
    return target


def remove_old_checkpoints(folder: Path, step: int) -> None:
    """Keep only the newest two checkpoints if the one of ``step``, which is known to be whole, is the newest.

    A run calls this at its start, too, because it may have been killed between a save and this.
    """
    found = checkpoints(folder)
    if found and found[-1] == checkpoint_path(folder, step):
        for old in found[:-CHECKPOINTS_KEPT]:
            old.unlink(missing_ok=True)


def checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoints, oldest first; folders, broken links and devices of such a name are left out."""
    return sorted(path for path in folder.glob("step-*.safetensors") if path.is_file())


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """Return tensors and state of the newest readable checkpoint, or None if there is no checkpoint."""
    found = checkpoints(folder)
    for path in reversed(found):
        try:
            return _read(path)
        except (SafetensorError, DamagedError, OSError):
            continue  # the one before it may be whole
    if found:
        raise UserError(f"no checkpoint in {folder} can be read; train again into another folder.")
    return None


def _read(path: Path) -> Checkpoint:
    with safe_open(path, framework="pt") as file:
        state, written = _header(file.metadata())
        if state["format"] != FORMAT:
            raise made_earlier(path)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if digest(tensors, state) != written:
        raise DamagedError
    return tensors, state


def _header(metadata: Mapping[str, str] | None) -> tuple[dict[str, Any], str]:
    """Return the state, which includes the format, and the digest that was written with it."""
    try:
        state = json.loads((metadata or {})["semco"])
        written = str(state.pop("digest"))
        return {"format": state.pop("format"), **state}, written
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise DamagedError from None


def digest(tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> str:
    """Return a checksum of the state and of the names and bytes of the tensors."""
    total = hashlib.blake2b(json.dumps(state, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def add_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``prefix``, without it."""
    return {n.removeprefix(f"{prefix}."): t for n, t in tensors.items() if n.startswith(f"{prefix}.")}
