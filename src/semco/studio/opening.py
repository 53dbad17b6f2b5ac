"""Opens the page in the browser without showing its token to the other users of the machine.

Everybody can read the arguments of a process, so the browser gets the path of a file that only its owner can read and
that redirects to the page.
"""

from __future__ import annotations

import html
import os
import shutil
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = ".open-"  # of the folder with the file
PAGE = """<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>SemCo Studio</title>
<p><a href="{url}">Open the Studio</a></p>
"""


@contextmanager
def private_page(url: str, folder: Path) -> Iterator[Path]:
    """Yield a file, in a new folder below ``folder``, that redirects to ``url``; both are removed afterwards."""
    for left in folder.glob(f"{PREFIX}*"):  # by a process that was killed; its token is void
        if not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=folder) as private:  # mode 0700
        file = Path(private, "studio.html")
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            stream.write(PAGE.format(url=html.escape(url)))
        yield file


@contextmanager
def opened_in_browser(url: str, folder: Path) -> Iterator[None]:
    """Open a page in the browser; the file that redirects to it is kept until the block ends."""
    with private_page(url, folder) as file:
        webbrowser.open(file.as_uri())
        yield
