"""``semco labels fetch``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semco.cli.labels.display import print_line, progress_bars


def fetch(
    what: Annotated[str, typer.Argument(metavar="glove|glove-6b|word2vec|conceptnet", help="The file to download.")],
    to: Annotated[Path, typer.Option(help="The folder for the file.")],
) -> None:
    """Download an official file; run it again to resume an interrupted download."""
    from semco.labels.build.fetch import SOURCES
    from semco.labels.build.fetch import fetch as download

    with progress_bars() as report:
        path = download(what, to, report)
    print_line(f"{path}: {path.stat().st_size:,} bytes, licence {SOURCES[what].licence}")
