"""Ctrl-C at any time of a command: while it is imported, while it works, while it ends."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

# Each sends the signal at a known moment, in the process of the command.
PREPARE = {
    "while it is imported": """
        class Finder:
            def find_spec(self, name, *_):
                if name == MODULE:
                    interrupt()
        sys.meta_path.insert(0, Finder())
    """,
    "while an error is shown": """
        import semco.cli.main
        semco.cli.main.exit_code = lambda _: interrupt()
    """,
    "twice": """
        import semco.cli.main
        def work(_):
            try:
                interrupt()
            finally:
                interrupt()
        semco.cli.main.exit_code = work
    """,
}
START = """
import atexit, os, runpy, signal, sys, textwrap
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
MODULE = sys.argv.pop(1)
exec(textwrap.dedent(sys.argv.pop(1)))
"""
AS_MODULE = "runpy.run_module('semco', run_name='__main__')"


def run(start: str, prepare: str, module: str = "typer") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START + start, module, prepare, "recipes"]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def as_script() -> str:
    """The program that an installer writes for the command ``semco``."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["semco"].partition(":")
    return f"from {module} import {function} as run\nsys.exit(run())"


@pytest.mark.parametrize("start", [AS_MODULE, as_script()], ids=["python -m semco", "semco"])
@pytest.mark.parametrize("moment", PREPARE)
def test_an_interrupt_ends_with_its_code_and_no_traceback(moment: str, start: str) -> None:
    done = run(start, PREPARE[moment])
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(("module", "said"), [("rich.console", ""), ("semco.cli.main", ""), ("yaml", "stopped\n")])
def test_an_interrupt_of_an_import_says_at_most_that_the_command_stopped(module: str, said: str) -> None:
    """The last one is imported by the command, which has begun."""
    done = run(AS_MODULE, PREPARE["while it is imported"], module)
    assert (done.returncode, done.stderr) == (130, said)


def test_an_interrupt_of_the_end_of_the_interpreter_changes_nothing() -> None:
    done = run(AS_MODULE, "atexit.register(interrupt)")
    assert (done.returncode, done.stderr) == (0, "")
    assert "semco" in done.stdout
