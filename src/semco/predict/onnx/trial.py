"""Runs an ONNX file once, in a process of its own that has little time and memory.

A graph is a program: an untrusted one may never end, or fill the memory, even while it is opened. So a child process
(``python -m``), which does not import torch, first opens the file and runs it on two small photos.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from semco.errors import UserError, brief

SECONDS = 30.0  # until the child is killed
MEMORY = 2 << 30  # bytes that it may allocate, besides five times the size of the file
PHOTOS = "photos"  # the input of an exported model
SHAPE = (2, 24, 32, 3)  # of the photos

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Outputs = dict[str, tuple[str, tuple[int, ...]]]  # dtype and shape by name


def try_model(file: Path) -> Outputs:
    """Return the outputs of a model for two photos; if it cannot be run, raise a `UserError`."""
    command = [sys.executable, "-P", "-m", __name__, str(file)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        finished = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{file} is refused: two small photos take it more than {SECONDS:g} s.") from None
    try:
        found = json.loads(finished.stdout.decode().splitlines()[-1])
        reason, outputs = found.get("error"), found.get("outputs", {})
    except (ValueError, IndexError, AttributeError):
        reason, outputs = f"the process that opened it ended with code {finished.returncode}", {}
    if reason is not None:
        raise UserError(f"{file} is not a model that ONNX Runtime reads ({reason}).")
    return {name: (dtype, tuple(shape)) for name, (dtype, shape) in outputs.items()}


def run_once(file: str) -> Outputs:
    """Open and run the file in this process."""
    import numpy as np
    import onnxruntime

    limit_memory(MEMORY + 5 * Path(file).stat().st_size)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # only what ends the process
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    if [each.name for each in session.get_inputs()] != [PHOTOS]:
        raise ValueError(f"its input is not {PHOTOS!r}")
    names = [each.name for each in session.get_outputs()]
    found = session.run(names, {PHOTOS: trial_photos()})
    arrays = {name: np.asarray(value) for name, value in zip(names, found, strict=True)}
    return {name: (str(each.dtype), each.shape) for name, each in arrays.items()}


def trial_photos() -> NDArray[np.uint8]:
    """Return the photos of the trial."""
    import numpy as np

    return (np.arange(np.prod(SHAPE)) % 251).astype(np.uint8).reshape(SHAPE)


def limit_memory(size: int) -> None:
    """Limit what this process may allocate from now on; systems that are not POSIX have no such limit."""
    try:
        import resource
    except ImportError:
        return
    pages = Path("/proc/self/statm")
    used = int(pages.read_text().split()[0]) * resource.getpagesize() if pages.exists() else 0
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = used + size if most == resource.RLIM_INFINITY else min(used + size, most)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    try:
        answer: dict[str, object] = {"outputs": run_once(sys.argv[1])}
    except Exception as error:  # ONNX Runtime raises errors of its own, whose base is Exception
        answer = {"error": brief(" ".join(str(error).split()) or type(error).__name__, 300)}
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
