"""The rooms of the package and what may stand in them, read from the source alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "semco"
FILES = sorted(ROOT.rglob("*.py"))
# A file may import from its own room and from earlier ones.
ROOMS = (
    "errors", "files", "across", "averaging", "types", "config", "data", "labels", "models", "pseudo_labels", "losses",
    "methods", "training", "evaluation", "report", "recipes", "experiment", "comparison", "estimator", "bench", "cli",
    "__init__", "__main__",
)  # fmt: skip
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    """``semco.data.views`` -> ``data``; the package itself is the room ``__init__``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def imports_of(node: ast.AST, path: Path) -> Iterator[str]:
    """The modules an import statement names, in full; ``from semco import data`` is ``semco.data``."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module_name(path).split(".")
            if path.name != "__init__.py":
                package = package[:-1]
            package = package[: len(package) - node.level + 1]
            base = ".".join([*package, *([base] if base else [])])
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            yield whole if base.split(".")[0] == "semco" and is_module(whole) else base


def all_imports(path: Path) -> set[str]:
    return {name for node in ast.walk(tree(path)) for name in imports_of(node, path)}


def module_level_imports(path: Path) -> set[str]:
    """What importing the file imports: statements in functions and under TYPE_CHECKING are left out."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(tree(path).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        found.update(imports_of(node, path))
        waiting += ast.iter_child_nodes(node)
    return found


def file_of(module: str) -> Path | None:
    path = ROOT.parent.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def test_there_is_something_to_check() -> None:
    assert len(FILES) > 20


@every_file
def test_imports_point_backwards(path: Path) -> None:
    own = room(module_name(path))
    assert own in ROOMS, f"{path.name} stands in no known room"
    for name in all_imports(path):
        if name.split(".")[0] == "semco":
            assert ROOMS.index(room(name)) <= ROOMS.index(own) or name == "semco", f"{own} imports {name}"


@every_file
def test_nothing_is_called_utils(path: Path) -> None:
    vague = {"util", "utils", "helper", "helpers", "misc", "common"}
    assert not vague & {part.lower() for part in path.relative_to(ROOT).with_suffix("").parts}


@every_file
def test_nothing_is_unpickled_freely(path: Path) -> None:
    """No pickle.load(s), torch.load or numpy pickles; an Unpickler only as base of a class with its own find_class."""
    whole = tree(path)
    guarded = set()
    for node in ast.walk(whole):
        if isinstance(node, ast.ClassDef) and any("Unpickler" in ast.unparse(base) for base in node.bases):
            own = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            assert "find_class" in own, f"{node.name} accepts anything"
            guarded.update(id(part) for base in node.bases for part in ast.walk(base))
    for node in ast.walk(whole):
        if isinstance(node, ast.ImportFrom):
            assert node.module not in {"pickle", "_pickle", "dill", "joblib"}, ast.unparse(node)
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            assert name not in {"pickle.load", "pickle.loads", "torch.load", "joblib.load", "dill.load"}, name
            assert name != "pickle.Unpickler" or id(node) in guarded, name
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert ast.unparse(node.value) == "False"


def test_labels_start_without_torch() -> None:
    """Importing labels/ must not import torch, neither itself nor through what it imports.

    The text encoder runs a network: it may reach torch, but only when it is used, and is itself imported late.
    """
    labels = [path for path in FILES if room(module_name(path)) == "labels"]
    assert labels
    waiting = [path for path in labels if path.name != "encoder.py"]
    for path in set(labels) - set(waiting):
        assert not {name.split(".")[0] for name in module_level_imports(path)} & {"torch", "transformers"}
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in module_level_imports(path) | {module_name(path)}:
            assert name.split(".")[0] not in {"torch", "transformers"}, f"{module_name(path)} imports {name}"
            parents = [".".join(name.split(".")[: i + 1]) for i in range(name.count(".") + 1)]
            waiting += [found for parent in parents if (found := file_of(parent))]


def test_the_reader_of_imports_reads() -> None:
    """The rule above is only as good as its reading of import statements."""
    path = ROOT / "methods" / "semco.py"
    assert {"semco.pseudo_labels", "semco.losses", "torch", "typing"} <= all_imports(path)
    source = ast.parse("from . import base\nfrom ..data import views as v\nfrom .base import Method")
    names = [name for node in source.body for name in imports_of(node, path)]
    assert names == ["semco.methods.base", "semco.data.views", "semco.methods.base"]


@every_file
def test_no_notes_to_self(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for word in ("TODO", "FIXME", "XXX", "NotImplementedError"):
        assert word not in text
