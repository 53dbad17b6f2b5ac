"""Python code run in a child process, so that it has its own peak memory, environment and number of threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semco.errors import UserError


def run_code(what: str, code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Any:
    """Run code that prints JSON and return its value; ``what`` names it if it fails."""
    command = [sys.executable, "-c", code, *arguments]
    environment = with_benchmarks(os.environ if environment is None else environment)
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if finished.returncode:
        raise child_failed(what, finished.stderr, finished.returncode)
    return json.loads(finished.stdout)


def with_benchmarks(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Python finds this folder, which is not installed."""
    root = str(Path(__file__).parents[1])
    return {**environment, "PYTHONPATH": os.pathsep.join([root, *filter(None, [environment.get("PYTHONPATH")])])}


def child_failed(what: str, stderr: str, exit_code: int) -> UserError:
    """Return the error for a child process that has stopped, with the last line that it wrote to stderr."""
    lines = stderr.strip().splitlines()
    reason = lines[-1] if lines else f"exit code {exit_code}"
    return UserError(f"the process of the {what} stopped ({reason}); fix the cause and measure again.")
