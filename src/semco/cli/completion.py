"""Values that the shell completes: ``--method fix<TAB>``. Nothing here imports torch, so completion is fast."""

from __future__ import annotations

from pathlib import Path

# Files of the methods' folder that hold no method.
NO_METHODS = ("__init__", "base", "ramps")


def method_names() -> list[str]:
    """Return the names of the methods, which are those of their files."""
    folder = Path(__file__).parents[1] / "methods"
    return sorted(path.stem for path in folder.glob("*.py") if path.stem not in NO_METHODS)


def complete_method(incomplete: str) -> list[str]:
    """Complete the name of one method."""
    return [name for name in method_names() if name.startswith(incomplete)]


def complete_recipes(incomplete: str) -> list[str]:
    """Complete the last of several recipes, a,b,c; a method is a recipe too."""
    from semco.config.recipes import recipes

    before, comma, last = incomplete.rpartition(",")
    names = [*recipes(), *method_names()]
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def complete_methods(incomplete: str) -> list[str]:
    """Complete the last of several methods, a,b,c."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_method(last)]
