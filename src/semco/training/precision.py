"""In which precision the backbone computes: float32, or bfloat16 where a pass in it is faster.

A CPU that announces instructions for bfloat16 may still be slower with them, and some virtual machines announce and
then forbid them, so that the process dies of an illegal instruction. So a pass is measured in a child process, once per
machine and network, and the result is remembered in the user's cache folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from semco.config import ModelConfig
from semco.errors import UserError
from semco.files import cache_folder, read_json_object, write_json
from semco.models import Precision, build_backbone, set_precision
from semco.run.seal import digest_of

EMULATED = "this machine has no instructions for bfloat16: the run takes many times as long as in float32"
CPU_FILE = Path("/proc/cpuinfo")
# What CPUs call their instructions for bfloat16 (x86 and ARM).
INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"})
# bfloat16 is chosen if its pass takes at most this part of the time in float32; less is not worth its rounding.
WORTH_IT = 0.9
# Seconds after which the child process counts as dead, and seconds of passes that it measures in each precision.
PATIENCE, MEASURED = 120.0, 0.2
# Pixels of the images of a measured pass.
PIXELS = 16 * 32 * 32


@dataclass(frozen=True)
class Subject:
    """A network that is to be measured: its configuration and the shape of its images."""

    model: ModelConfig
    channels: int
    image_size: int

    def to_json(self) -> str:
        return json.dumps([self.model.model_dump(mode="json"), self.channels, self.image_size])

    @classmethod
    def from_json(cls, text: str) -> Subject:
        model, channels, image_size = json.loads(text)
        return cls(ModelConfig.model_validate(model), channels, image_size)


@dataclass(frozen=True)
class PassTimes:
    """Seconds of a forward and backward pass in each precision."""

    float32: float
    bfloat16: float

    @property
    def is_faster(self) -> bool:
        """Whether bfloat16 is worth it."""
        return self.bfloat16 <= WORTH_IT * self.float32


@dataclass(frozen=True)
class Cpu:
    """The processor as it describes itself."""

    model: str
    features: frozenset[str]

    @classmethod
    def of_this_machine(cls, file: Path = CPU_FILE) -> Cpu:
        """Read the first processor of Linux's list; without that list, nothing is known."""
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
        except OSError:
            return cls("unknown", frozenset())
        fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        features = fields.get("flags") or fields.get("Features") or ""
        return cls(fields.get("model name", "unknown"), frozenset(features.split()))

    @property
    def has_bfloat16(self) -> bool:
        """Whether instructions for bfloat16 are announced."""
        return not self.features.isdisjoint(INSTRUCTIONS)


@dataclass(frozen=True)
class Choice:
    """A precision and, if the user should hear of it, why."""

    precision: Precision
    reason: str = ""


def choose_precision(
    wanted: Literal["auto", "float32", "bfloat16"],
    device: torch.device,
    subject: Subject,
    cpu: Cpu | None = None,
    measure: Callable[[Subject], PassTimes | None] | None = None,
) -> Choice:
    """Return the precision of a run; ``auto`` is the one in which a pass is faster on this machine."""
    if wanted == "float32":
        return Choice("float32")
    if device.type == "cuda":
        return _choose_on_gpu(wanted)
    cpu = cpu or Cpu.of_this_machine()
    if device.type != "cpu" or not cpu.has_bfloat16:
        return Choice("float32") if wanted == "auto" else Choice("bfloat16", EMULATED)
    times = remembered_times(subject, cpu, measure or time_in_child)
    if times is None:
        if wanted == "bfloat16":
            raise UserError(
                "this machine announces instructions for bfloat16 and stops a process that uses them: set "
                "training.precision=float32."
            )
        return Choice("float32", "bfloat16 is announced by this machine but stops a process: float32 is used")
    if wanted == "auto" and not times.is_faster:
        return Choice("float32")
    ratio = f"{times.float32 / times.bfloat16:.2f}"
    return Choice("bfloat16", f"the network computes in bfloat16, {ratio} times as fast as float32 on this machine")


def usable_precision(saved: Precision, device: torch.device, subject: Subject) -> Precision:
    """Return the precision of a saved model, or float32 on a machine that has no bfloat16."""
    if saved == "float32":
        return "float32"
    if device.type == "cuda":
        return _choose_on_gpu("auto").precision
    cpu = Cpu.of_this_machine()
    is_usable = device.type == "cpu" and cpu.has_bfloat16 and remembered_times(subject, cpu, time_in_child) is not None
    return "bfloat16" if is_usable else "float32"


def _choose_on_gpu(wanted: str) -> Choice:
    if torch.cuda.is_bf16_supported(including_emulation=False):
        return Choice("bfloat16")
    if wanted == "bfloat16":
        raise UserError("this GPU has no bfloat16: set training.precision=float32.")
    return Choice("float32")


def remembered_times(subject: Subject, cpu: Cpu, measure: Callable[[Subject], PassTimes | None]) -> PassTimes | None:
    """Return the times of a network on this machine, measured at most once; None if the child process died."""
    folder = cache_folder("precision")
    if folder is None:
        return measure(subject)
    threads = torch.get_num_threads()
    key = digest_of([cpu.model, sorted(cpu.features), torch.__version__, threads, subject.to_json()])
    file = folder / f"{key}.json"
    try:
        values = read_json_object(file) if file.exists() else {}
        return _parse(values["seconds"])
    except (UserError, KeyError, TypeError, ValueError):  # not there, damaged, or of another version
        times = measure(subject)
        seconds = None if times is None else {"float32": times.float32, "bfloat16": times.bfloat16}
        write_json(file, {"cpu": cpu.model, "backbone": subject.model.backbone, "seconds": seconds})
        return times


def _parse(seconds: object) -> PassTimes | None:
    if seconds is None:
        return None
    if not isinstance(seconds, dict):
        raise TypeError(seconds)
    times = PassTimes(float(seconds["float32"]), float(seconds["bfloat16"]))
    if min(times.float32, times.bfloat16) <= 0:
        raise ValueError(seconds)
    return times


_CHILD = "import sys; from semco.training.precision import print_times; print_times(sys.argv[1])"


def time_in_child(subject: Subject, code: str = _CHILD) -> PassTimes | None:
    """Measure in a child process; None if it dies, as it does of an illegal instruction."""
    command = [sys.executable, "-c", code, subject.to_json()]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
        return _parse(json.loads(finished.stdout))
    except (subprocess.SubprocessError, ValueError):
        return None


def print_times(subject: str) -> None:
    """Print the times of a network, in the child process."""
    times = time_passes(Subject.from_json(subject))
    sys.stdout.write(json.dumps({"float32": times.float32, "bfloat16": times.bfloat16}))


def time_passes(subject: Subject, seconds: float = MEASURED) -> PassTimes:
    """Return the shortest forward and backward pass of some images in each precision; they take turns."""
    size, channels = subject.image_size, subject.channels
    network = build_backbone(subject.model, channels, size, saved={}).train()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.rand(max(2, PIXELS // size**2), channels, size, size).contiguous(memory_format=torch.channels_last)
    taken: dict[Precision, list[float]] = {"float32": [], "bfloat16": []}
    while sum(taken["float32"][1:]) < seconds or len(taken["float32"]) < 3:
        for precision, durations in taken.items():
            set_precision(network, precision)
            started = time.perf_counter()
            network(images).sum().backward()
            durations.append(time.perf_counter() - started)
    return PassTimes(**{precision: min(durations[1:]) for precision, durations in taken.items()})  # the first warms up
