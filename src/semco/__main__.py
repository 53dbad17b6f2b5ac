"""The command line, as ``semco`` and as ``python -m semco``; torchrun starts the latter."""

from __future__ import annotations

import os


def main() -> None:
    """Run the command line; Ctrl-C while it is being imported, which takes a while, ends it with code 130, too."""
    try:
        from semco.cli.main import main as run_command

        run_command()
    except KeyboardInterrupt:
        os._exit(130)


if __name__ == "__main__":
    main()
