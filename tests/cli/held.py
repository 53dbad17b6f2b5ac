"""The command line in a process that waits for a signal at a step of its training.

So a test that sends the signal need not be quicker than the run, however busy the machine is.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from torch import Tensor

from semco.cli import demo
from semco.cli.main import main
from semco.config import Config, configure
from semco.training.loop import Trainer
from semco.training.signals import StopRequest
from semco.types import Batch
from tests.forking import start_python


def start_held(
    step: int, *arguments: object, small_demo: bool = False, cwd: Path | None = None
) -> subprocess.Popen[str]:
    """Start ``semco`` with these arguments; its training waits after ``step`` steps until a signal comes."""
    return start_python("-c", f"from {__name__} import run; run({step}, {small_demo})", *arguments, cwd=cwd)


def run(step: int, small_demo: bool) -> None:
    """Run the command line in this process, which `start_held` has started."""
    original = Trainer._train

    def hold(trainer: Trainer, batch: Batch, truth: Tensor, stop: StopRequest) -> None:
        while trainer.state.step == step and stop.number is None:
            time.sleep(0.01)
        original(trainer, batch, truth, stop)

    Trainer._train = hold  # type: ignore[method-assign]
    if small_demo:
        demo.configure_run = configure_small_demo
    main()


def configure_small_demo(recipe: str, method: str, steps: int | None, seed: int) -> Config:
    """Return the configuration of the demo with three classes, small images and a small batch."""
    settings = ["data.classes=[bag, coat, sandal]", "data.image_size=8", "training.batch_size=4"]
    return configure(
        recipe, options={"method": {"name": method}, "training": {"steps": steps, "seed": seed}}, settings=settings
    )
