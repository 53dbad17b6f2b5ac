"""Starting several processes on this machine through torchrun."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from semco.config import Config
from semco.files import write_text

# A worker that dies is started again, from the last checkpoint, at most so often.
RESTARTS = 3


def launch(config: Config, out: Path, processes: int) -> int:
    """``semco train`` in so many processes; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="semco-") as folder:
        file = Path(folder) / "config.yaml"
        write_text(file, config.to_yaml())
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        workers = [f"--nproc-per-node={processes}", f"--max-restarts={RESTARTS}"]
        command = ["-m", "semco", "train", "--config", str(file), "--out", str(out)]
        return subprocess.call([*torchrun, *workers, *command])
