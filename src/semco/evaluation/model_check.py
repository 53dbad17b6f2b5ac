"""Checks a saved model against its own weights before anything of its size is built.

A model may come from a stranger. Its description is compared with the headers of its files, which hold names and shapes
of the tensors: first the network is built on torch's meta device, where tensors have shapes and no memory, and one
batch passes through it there. What is built afterwards takes the memory of the files.

Shapes: K classes, d embedding size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_parameter_registration_hook

from semco.errors import UserError, brief
from semco.models import Network
from semco.types import Outputs

# Limits for the numbers that describe a model. No known model exceeds them; one that does would fill the memory.
ImageSide = Annotated[int, Field(ge=1, le=4096)]
ClassNames = Annotated[tuple[str, ...], Field(min_length=1, max_length=100_000)]
Size = Annotated[int, Field(ge=1, le=2**20)]
MOST_OF_ARCHITECTURE = 2**20  # the largest number in the configuration of a transformers model
MOST_PER_IMAGE = 2**29  # bytes that one layer may give for one image; a batch of them could not be trained on
CHECKED_IMAGES = 2

Shapes = dict[str, tuple[str, tuple[int, ...]]]  # dtype and shape by name


def class_problem(names: tuple[str, ...], group_ids: tuple[int, ...]) -> str | None:
    """Return what is wrong with the names of the classes, or their group ids, if anything."""
    num_classes = len(names)
    most_common, count = Counter(names).most_common(1)[0]
    if count > 1:
        return f"{count} classes are named {brief(most_common, 60)}"
    unusable = next((name for name in names if not name.strip() or "\0" in name), None)
    if unusable is not None:
        return f"a class is named {brief(unusable, 60)}"
    if len(group_ids) != num_classes:
        return f"{len(group_ids)} groups for {num_classes} classes"
    if not all(0 <= group < num_classes for group in group_ids):
        return f"groups are numbers from 0 to {num_classes - 1}, not {brief(group_ids, 60)}"
    return None


def check_numbers(value: Any) -> None:
    """Raise a ValueError for a number in nested values that would make a network too large to be built."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict | list):
            pending += each.values() if isinstance(each, dict) else each
        elif isinstance(each, int | float) and not abs(each) <= MOST_OF_ARCHITECTURE:
            raise ValueError(f"{each:.3g} is more than {MOST_OF_ARCHITECTURE:,}")


def stored_shapes(file: Path) -> Shapes:
    """Return the tensors that a safetensors file announces; only its header is read."""
    if file.exists() and not file.is_file():
        raise UserError(f"{file} is not a file; the model folder is incomplete.")
    try:
        with safe_open(file, framework="pt") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118 (it is not a mapping)
            return {name: (each.get_dtype(), tuple(each.get_shape())) for name, each in slices.items()}
    except FileNotFoundError:
        raise UserError(f"{file} is missing; the model folder is incomplete.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} is damaged or incomplete ({error}).") from None


def check_network(build: Callable[[], Network], stored: Shapes, shape: tuple[int, int, int], num_classes: int) -> None:
    """Raise a ValueError unless the network has the stored tensors and predicts the classes of images of this shape."""
    with torch.device("meta"), _at_most_parameters(4 * len(stored) + 100):
        network = build().eval()
    if {name: (_NAMES.get(each.dtype), tuple(each.shape)) for name, each in network.state_dict().items()} != stored:
        raise ValueError("it holds other tensors")
    images = torch.empty(CHECKED_IMAGES, *shape, device="meta")
    with torch.inference_mode(), _at_most_memory():
        outputs: Outputs = network(images)
    if outputs.logits.shape != (CHECKED_IMAGES, num_classes):
        raise ValueError(f"it predicts {tuple(outputs.logits.shape)}")


_NAMES = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL", torch.uint8: "U8", torch.int32: "I32"}


@contextmanager
def _at_most_parameters(most: int) -> Iterator[None]:
    """Stop a network that registers more parameters, some of which it may drop again: it might never end."""
    count = 0

    def on_parameter(_module: nn.Module, _name: str, _parameter: Tensor) -> None:
        nonlocal count
        count += 1
        if count > most:
            raise ValueError(f"it has more than {most} parameters")

    handle = register_module_parameter_registration_hook(on_parameter)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _at_most_memory() -> Iterator[None]:
    """Stop a network whose layers give too much for one image: a small file can ask for images of any size."""

    def on_output(_module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.nbytes > CHECKED_IMAGES * MOST_PER_IMAGE:
            raise ValueError(f"one image takes it more than {MOST_PER_IMAGE >> 20} MB")

    handle = register_module_forward_hook(on_output)
    try:
        yield
    finally:
        handle.remove()
