"""torch.compile: whether it pays, and what happens while it runs.

Shapes: C channels, H height, W width.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch._functorch.config as compiler
from torch import Tensor, nn

from semco.config import TrainingConfig
from semco.errors import UserError
from semco.training.compiler.cache import CompilerCache
from semco.training.compiler.processes import interrupt_compilers, stop_compiling
from semco.training.execution import recomputes_activations
from semco.training.signals import Interrupted, StopRequest

# Measured on two cores with WRN-28-2 (docs/lab/speed.md): seconds of compilation per convolution, the fraction of a
# step that it saves, and the speed of an eager step, in multiply-adds of one forward pass over all its views.
COMPILE_SECONDS = 2.3
COMPILE_SAVES = 0.075
EAGER_RATE = 50e9
# Not measured: steps after which a GPU, whose steps are much shorter, is expected to have won the time back.
GPU_STEPS = 5000


@dataclass(frozen=True)
class Compilation:
    """Whether to compile the network, and why."""

    is_wanted: bool
    reason: str


def choose_compilation(
    config: TrainingConfig, network: nn.Module, image_shape: tuple[int, ...], views: int, device: torch.device
) -> Compilation:
    """Decide whether to compile; ``auto`` compiles if the run is expected to be long enough to win the time back.

    ``image_shape`` (C, H, W) and the number of ``views`` per step determine the work. No clock is used, because a
    resumed run must decide as it did before.
    """
    if config.compile != "auto":
        return Compilation(config.compile == "on", f"training.compile is {config.compile}")
    if not any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++")):
        return Compilation(False, "there is no C++ compiler")
    layers = sum(isinstance(part, nn.Conv2d) for part in network.modules())
    if layers == 0:  # only the heads are trained
        return Compilation(False, "there are no convolutions to compile")
    seconds = COMPILE_SECONDS * layers
    steps = GPU_STEPS
    if device.type == "cpu":
        step = views * multiply_adds(network, image_shape) / EAGER_RATE
        steps = round(seconds / (COMPILE_SAVES * step))
    expected = f"compiling takes about {seconds:.0f} s and pays off after about {steps} steps"
    return Compilation(config.total_steps >= 2 * steps, expected)  # not for a small gain


def multiply_adds(network: nn.Module, image_shape: tuple[int, ...]) -> float:
    """Return the multiply-adds of one image (C, H, W) in the forward pass, counted while it runs on the CPU.

    On the "meta" device, where torch runs batch norm as Python code, counting takes longer for all but large images.
    """
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    # Attention multiplies outside of layers. torch counts that too, but imports its compiler first: over a second.
    is_from_transformers = any(type(module).__module__.startswith("transformers.") for module in network.modules())
    with torch.no_grad():
        run = partial(network, torch.zeros((1, *image_shape)))
        total = _count_operations(run) if is_from_transformers else _count_in_layers(run, network)
    for module, mode in modes:
        module.training = mode
    return total


def _count_operations(run: Callable[[], object]) -> float:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        run()
    return float(counter.get_total_flops()) / 2


def _count_in_layers(run: Callable[[], object], network: nn.Module) -> float:
    """Every weight of a convolution or linear layer is used once for each position of its output."""
    counts = [0.0]

    def add(layer: nn.Module, _: object, output: Tensor) -> None:
        weight: Tensor = layer.weight  # type: ignore[assignment]
        counts.append(weight.numel() * output.numel() / weight.shape[0])

    layers = [part for part in network.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    hooks = [layer.register_forward_hook(add) for layer in layers]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return sum(counts)


def compiler_options(config: TrainingConfig, device: torch.device) -> AbstractContextManager[object]:
    """Make compiled code follow ``training.recompute``; by default the compiler stores inputs of convolutions."""
    if not recomputes_activations(config, device):
        return nullcontext()
    patched: AbstractContextManager[object] = compiler.patch(aggressive_recomputation=True)
    return patched


class CompilationError(UserError):
    """The network could not be compiled."""


@contextmanager
def compiling(stop: StopRequest, step: int, run: Path) -> Iterator[None]:
    """Run the step that compiles, which takes minutes, so that a signal is answered at once.

    Nothing of the step is saved yet, so nothing is lost.
    """
    if stop.number is not None:
        raise Interrupted(stop.number, step, run)
    caught: tuple[type[BaseException], ...] = (*_compiler_errors(), KeyboardInterrupt)
    before, stop.on_first = stop.on_first, _interrupt
    try:
        yield
    except caught as error:
        stop_compiling()
        if stop.number is not None:
            raise Interrupted(stop.number, step, run) from None
        if not isinstance(error, Exception):
            raise
        raise _compilation_error(error, run) from error
    finally:
        stop.on_first = before


def _interrupt() -> None:
    """End the compilers, then this step; torch's compiler would catch any other exception."""
    interrupt_compilers()
    raise KeyboardInterrupt


def _compiler_errors() -> tuple[type[Exception], ...]:
    """Return what torch raises if code cannot be compiled, or be read or loaded from the cache (as it is, then)."""
    from torch._dynamo.exc import TorchDynamoException  # takes a second to import
    from torch._inductor.exc import CppCompileError

    return (TorchDynamoException, CppCompileError, ImportError, OSError, SyntaxError)


def _compilation_error(error: Exception, run: Path) -> CompilationError:
    lines, again = str(error).strip().splitlines(), f"semco resume {run}"
    reason = lines[0] if lines else type(error).__name__
    return CompilationError(
        f"the network could not be compiled ({reason}); try '{again}', or train with training.compile=off."
    )


def take_compiling_step(
    take_step: Callable[[], None],
    guard: Callable[[], AbstractContextManager[None]],
    cache: CompilerCache,
    modules: Sequence[nn.Module],
    *,
    can_repeat: bool,
) -> bool:
    """Take the step that compiles within ``guard()``; return whether it was repeated because of damaged cached code.

    A step that cannot be compiled fails before it changes weights, so only the buffers of ``modules`` are restored.
    """
    buffers = [(buffer, buffer.clone()) for module in modules for buffer in module.buffers()]
    try:
        with guard():
            take_step()
        return False
    except CompilationError:
        cache.clear()
        if not (can_repeat and cache.had_libraries):
            raise
    with torch.no_grad():
        for buffer, value in buffers:
            buffer.copy_(value)
    with guard():
        take_step()
    return True
