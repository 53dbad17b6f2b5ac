"""``semco serve``: answer HTTP requests with a trained model."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console


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
    url = f"http://{host}:{port}"
    with service.bind(host, port) as listening:
        server = service.make_server(service.Service(load(model), limits, token, host))
        console.print(f"{url}   {service.sample_request(url)}")
        server.run([listening])
