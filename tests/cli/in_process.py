"""The command line within the process of the tests, which saves the start of Python and the import of torch."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from semco.cli.main import main


def run_here(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``semco`` with these arguments, as its own process would; an exception that escapes fails the test."""
    command = ["semco", *map(str, arguments)]
    output, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before = signal.getsignal(signal.SIGINT)  # `main` ends by ignoring it
    try:
        with (
            warnings.catch_warnings(),
            chdir(cwd or Path.cwd()),
            patch.object(sys, "argv", command),
            redirect_stdout(output),
            redirect_stderr(errors),
        ):
            warnings.resetwarnings()
            warnings.simplefilter("default")  # not errors, as they are in tests
            with pytest.raises(SystemExit) as ended:
                main()
    finally:
        signal.signal(signal.SIGINT, before)
    texts = [stream.buffer.getvalue().decode() for stream in (output, errors)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(command, int(ended.value.code or 0), *texts)
