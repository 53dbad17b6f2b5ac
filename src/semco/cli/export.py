"""``semco export`` and ``semco serve``: a trained model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer
from rich.console import Console

from semco.cli.evaluate import HeadName
from semco.cli.labels.display import progress_bars
from semco.cli.options import names_force
from semco.cli.running import stops_on_sigterm

# `semco.export.formats.FormatName`, repeated here to avoid importing torch.
FormatChoice = Literal["onnx", "torch", "openvino", "triton", "hf"]


def export(
    run: Path = typer.Argument(..., help="A finished run folder."),
    format_name: FormatChoice | None = typer.Option(
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
    head: HeadName | None = typer.Option(None, help="The head that predicts.", show_default="the head of the run"),
    top: int = typer.Option(5, help="Number of class names in the output (onnx, triton)."),
    force: bool = typer.Option(False, "--force", help="Overwrite the file of --to if it exists; a folder never is."),
) -> None:
    """Export a model with its preprocessing: photos (N, H, W, 3) uint8 in, probabilities and class names out."""
    from semco.export.run import export_run

    with names_force(), stops_on_sigterm(), progress_bars() as report:
        done = export_run(run, to, head, top, report, format_name, force=force)
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


def serve(
    model: Path = typer.Argument(..., help="The folder of a finished run, or an exported model (.onnx)."),
    host: str = typer.Option("127.0.0.1", help="Address to listen on; 0.0.0.0 lets other machines in."),
    port: int = typer.Option(8000, min=1, max=65535, help="Port to listen on."),
    token: str = typer.Option(None, envvar="SEMCO_TOKEN", help="Requests must send this as a bearer token."),
    max_megabytes: float = typer.Option(20.0, min=0.001, help="Size of a request."),
    timeout: float = typer.Option(30.0, min=0.1, help="Seconds until a request is given up."),
) -> None:
    """Serve a model over HTTP: POST /predict with photos, GET /health, GET / a page to drop a photo on."""
    from semco.export import service
    from semco.predict.predictor import load

    service.check_start(token)
    limits = service.Limits(megabytes=max_megabytes, seconds=timeout)
    console = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
    console.print(f"loading {model}", style="dim")
    url = f"http://{host}:{port}"
    with service.bind(host, port) as listening:
        server = service.make_server(service.Service(load(model), limits, token, host))
        console.print(f"{url}   {service.sample_request(url)}")
        server.run([listening])
