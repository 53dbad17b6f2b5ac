"""``python -m semco`` is the command line; torchrun starts it this way."""

from semco.cli.main import main

if __name__ == "__main__":
    main()
