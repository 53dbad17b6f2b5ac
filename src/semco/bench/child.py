"""Python code run in a child process, so that it has its own peak memory, environment and number of threads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from semco.errors import UserError


def run_code(what: str, code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Any:
    """Run code that prints JSON and return its value; ``what`` names it if it fails."""
    command = [sys.executable, "-c", code, *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if finished.returncode:
        raise child_failed(what, finished.stderr, finished.returncode)
    return json.loads(finished.stdout)


def child_failed(what: str, stderr: str, exit_code: int) -> UserError:
    """Return the error for a child process that has stopped, with the last line that it wrote to stderr."""
    lines = stderr.strip().splitlines()
    reason = lines[-1] if lines else f"exit code {exit_code}"
    return UserError(f"the process of the {what} stopped ({reason}); fix the cause and measure again.")
