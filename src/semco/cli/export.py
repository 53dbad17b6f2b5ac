"""``semco export``: write a trained model for other programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer
from rich.console import Console

from semco.cli.evaluate import HeadName


class FormatChoice(StrEnum):
    """The formats (`semco.export.formats.FormatName`), repeated here to avoid importing torch."""

    onnx = "onnx"
    torch = "torch"
    openvino = "openvino"
    triton = "triton"
    hf = "hf"


def export(
    run: Path = typer.Argument(..., help="A finished run folder."),
    format_name: FormatChoice = typer.Option(
        None,
        "--format",
        help="The format; hf is a folder for transformers.",
        show_default="the ending of --to, or onnx",
    ),
    to: Path = typer.Option(
        None,
        help="The file (.onnx; .pt2 for torch) or the folder (openvino, triton, hf) to write.",
        show_default="in RUN/export",
    ),
    head: HeadName = typer.Option(None, help="The head that predicts.", show_default="the head of the run"),
    top: int = typer.Option(5, help="Number of class names in the output (onnx, triton)."),
) -> None:
    """Export a model with its preprocessing: photos (N, H, W, 3) uint8 in, probabilities and class names out."""
    from semco.export.run import export_run

    done = export_run(
        run,
        to,
        None if head is None else head.value,
        top,
        format_name=None if format_name is None else format_name.value,
    )
    console = Console(soft_wrap=True, markup=False, highlight=False)
    opset = f", opset {done.opset}" if done.opset else ""
    console.print(f"{done.file}  {done.size / 1e6:.1f} MB{opset}")
    console.print(
        f"compared with torch on {done.images:,} images: largest difference of a probability {done.difference:.1e}, "
        f"same label for {done.agreement:.1%}"
    )
    if done.accuracy is not None and done.torch_accuracy is not None:
        console.print(f"accuracy on these test images: {done.accuracy:.2%}, with torch {done.torch_accuracy:.2%}")
    console.print(f"model card: {done.card}")
