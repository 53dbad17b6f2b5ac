"""torch.compile (``training.compile``): where compiled code is cached, and what happens if the compiler fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch._functorch.config as compiler

from semco.errors import UserError
from semco.files import cache_folder
from semco.training.signals import StopRequest

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@contextmanager
def compiled_steps(is_wanted: bool, recompute: bool, stop: StopRequest) -> Iterator[None]:
    """Prepare the compiler for the steps in the block.

    Compiled code follows ``training.recompute``; by default the compiler stores inputs of convolutions.
    """
    if not is_wanted:
        yield
        return
    from torch._dynamo.exc import TorchDynamoException  # takes a second to import
    from torch._inductor.exc import CppCompileError

    with _cache() as folder, compiler.patch(aggressive_recomputation=recompute):
        try:
            yield
        except (TorchDynamoException, CppCompileError) as error:
            if stop.number is not None:  # Ctrl-C in a terminal also ends the compilers
                raise KeyboardInterrupt from error
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(
                f"the network could not be compiled ({reason}); train without training.compile, or, if compiled code "
                f"was damaged, delete {folder}."
            ) from error


@contextmanager
def _cache() -> Iterator[str]:
    """Keep compiled code in SemCo's cache folder, unless the user has set a folder; yield the one that is used.

    torch's default is shared by all programs of a user. One that is killed while it compiles can leave a damaged
    library there.
    """
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    before, own = os.environ.get(VARIABLE), cache_folder("compiled")
    if own is None or before not in (None, default_cache_dir()):  # torch sets the variable to its default
        yield before or default_cache_dir()
        return
    os.environ[VARIABLE] = str(own)
    try:
        yield str(own)
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
