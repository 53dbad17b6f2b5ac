"""`make torture`: attacks on the package with random but repeatable damage. Run by `run.py`, not by pytest."""
