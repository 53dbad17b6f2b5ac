"""Messages of image libraries are hidden, those of Python are not, in any order of threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings

import pytest

from semco.data.library_messages import discard_stderr, ignore_warnings

PROGRAM = """
import os, sys
from semco.data.library_messages import discard_stderr
before = sys.stderr
with discard_stderr():
    os.write(2, b"from a library\\n")
    print("from Python", file=sys.stderr)
assert sys.stderr is before
os.write(2, b"afterwards\\n")
"""


def test_python_can_still_print_while_libraries_cannot() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["from Python", "afterwards"]


def test_a_process_without_stderr() -> None:
    program = (
        "import os\nfrom semco.data.library_messages import discard_stderr\nos.close(2)\nwith discard_stderr(): pass"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_last_thread_restores(capfd: pytest.CaptureFixture[str]) -> None:
    first_left, second_entered = threading.Event(), threading.Event()

    def second() -> None:
        with discard_stderr(), ignore_warnings():
            second_entered.set()
            first_left.wait(60)
            os.write(2, b"hidden")
            warnings.warn("hidden", stacklevel=1)

    thread = threading.Thread(target=second)
    filters = list(warnings.filters)
    with discard_stderr(), ignore_warnings():
        thread.start()
        second_entered.wait(60)
    first_left.set()
    thread.join()
    os.write(2, b"shown")
    assert capfd.readouterr().err == "shown"
    assert warnings.filters == filters
