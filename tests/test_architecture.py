"""The rules of the package: its rooms (folders), their order, and what the files of a room may contain."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "semco"
FILES = sorted(ROOT.rglob("*.py"))
# A file may import from its own room and from earlier ones.
ROOMS = (
    "errors", "files", "download", "types", "config", "distributed", "data", "labels", "groups", "models",
    "pseudo_labels", "losses", "methods", "resolve", "run", "training", "evaluation", "predict", "report", "inspection",
    "suggestions", "experiment", "estimator", "export", "studio", "doctor", "cli", "__init__", "__main__",
)  # fmt: skip
MOST_LINES_OF_FUNCTION = 50
FLAG = re.compile(r"""(^|[\s'"(`])--[a-z]""")
# Files outside cli/ that may contain command-line flags, or text that looks like them.
WITH_FLAGS = {
    "experiment/engines/local.py": "builds the command line of a run",
    "report/page.py": "shows the command that repeats a run",
    "report/figures.py": "names CSS variables",
}


def every_file(check: Callable[[Path], None]) -> Callable[[], None]:
    """Return a test that checks every file and names all that fail; a test of each would take ten times as long."""

    def test() -> None:
        failures = []
        for path in FILES:
            try:
                check(path)
            except AssertionError as failure:
                failures.append(f"{inside(path)}: {failure}")
        assert not failures, "\n".join(failures)

    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test


def inside(path: Path) -> str:
    """Return the path of a file within the package, such as ``data/views.py``."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    """Return the room of a module: ``data`` for ``semco.data.views``, ``__init__`` for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def imports_of(node: ast.AST, path: Path) -> Iterator[str]:
    """Yield the full names of the modules that a statement imports; ``from semco import data`` gives ``semco.data``."""
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
    return {name for node in nodes(path) for name in imports_of(node, path)}


def module_level_imports(path: Path) -> set[str]:
    """Return what importing the file imports, which excludes statements in functions and under TYPE_CHECKING."""
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


def uses_of_torch_distributed(node: ast.AST) -> Iterator[str]:
    """Yield the statements and expressions by which a part of a file uses torch.distributed."""
    private = ("torch.distributed", "torch._C._distributed_c10d")
    for part in ast.walk(node):
        names: list[str] = []
        if isinstance(part, ast.Import):
            names = [alias.name for alias in part.names]
        elif isinstance(part, ast.ImportFrom):
            names = [f"{part.module}.{alias.name}" for alias in part.names]
        elif isinstance(part, ast.Attribute) and part.attr in ("distributed", "_distributed_c10d"):
            names = [ast.unparse(part)]
        if any(name == each or name.startswith(f"{each}.") for name in names for each in private):
            yield ast.unparse(part)


def flags_in(node: ast.AST) -> list[str]:
    """Return the strings, other than docstrings, that contain a command-line flag."""
    parts = list(ast.walk(node))
    docstrings = {id(part.value) for part in parts if isinstance(part, ast.Expr)}
    strings = [part.value for part in parts if isinstance(part, ast.Constant) and id(part) not in docstrings]
    return [text for text in strings if isinstance(text, str) and FLAG.search(text)]


def long_functions(node: ast.AST) -> dict[str, int]:
    """Return the number of lines of each function that is too long."""
    lengths = {
        f"{part.name}, line {part.lineno}": (part.end_lineno or part.lineno) - part.lineno + 1
        for part in ast.walk(node)
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_FUNCTION}


def unused_imports_kept(text: str) -> list[str]:
    """Return the lines that tell the linter to accept an unused import, which is there for its side effects."""
    return re.findall(r".*#\s*noqa\b:?.*\bF401\b.*", text)


def uses_of_auto(node: ast.AST) -> list[str]:
    """Return the expressions by which a part of a file treats a field that a request leaves open."""
    found = [ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.Name) and part.id == "AUTO"]
    for part in ast.walk(node):
        if isinstance(part, ast.Compare):
            inner = list(ast.walk(part))
            has_auto = any(isinstance(each, ast.Constant) and each.value == "auto" for each in inner)
            if has_auto and any(isinstance(each, ast.Attribute) for each in inner):
                found.append(ast.unparse(part))
    return found


def test_the_package_is_found() -> None:
    assert len(FILES) > 20


@every_file
def test_imports_come_from_the_same_or_an_earlier_room(path: Path) -> None:
    own = room(module_name(path))
    assert own in ROOMS, f"{path.name} is in an unknown room"
    for name in all_imports(path):
        if name.split(".")[0] == "semco":
            assert ROOMS.index(room(name)) <= ROOMS.index(own) or name == "semco", f"{own} imports {name}"


@every_file
def test_only_distributed_uses_torch_distributed(path: Path) -> None:
    uses = list(uses_of_torch_distributed(tree(path)))
    assert room(module_name(path)) == "distributed" or not uses, uses


def test_no_method_imports_distributed() -> None:
    methods = [path for path in FILES if room(module_name(path)) == "methods"]
    assert len(methods) > 10
    for path in methods:
        assert "distributed" not in {room(name) for name in all_imports(path) if name.startswith("semco.")}, path.name


def test_config_works_alone() -> None:
    """The configuration finds the methods by itself, in an interpreter that has imported nothing else."""
    code = "from semco.config import Config; print(Config().method.name)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert (finished.returncode, finished.stdout.strip()) == (0, "auto"), finished.stderr


@every_file
def test_no_import_for_its_side_effects(path: Path) -> None:
    assert not unused_imports_kept(path.read_text(encoding="utf-8"))


@every_file
def test_command_line_flags_stay_in_cli(path: Path) -> None:
    """Messages raised elsewhere also reach people who use the library, who have no command line."""
    if room(module_name(path)) != "cli" and inside(path) not in WITH_FLAGS:
        assert not flags_in(tree(path))


@pytest.mark.parametrize("name", WITH_FLAGS)
def test_exceptions_for_flags_are_needed(name: str) -> None:
    assert flags_in(tree(ROOT / name)), f"{name} contains no flag: remove it from WITH_FLAGS"


@every_file
def test_functions_are_short(path: Path) -> None:
    assert not long_functions(tree(path))


@every_file
def test_only_resolve_knows_fields_that_are_auto(path: Path) -> None:
    """What is open in a request is decided there, once."""
    assert room(module_name(path)) in ("config", "resolve") or not uses_of_auto(tree(path)), uses_of_auto(tree(path))


def test_rules_know_only_what_is_passed_to_them() -> None:
    files = [path for path in FILES if room(module_name(path)) == "resolve"]
    imported = {room(name) for path in files for name in all_imports(path) if name.startswith("semco.")}
    assert imported <= {"config", "data", "errors", "groups", "labels", "methods", "models", "resolve"}


def test_the_checks_find_violations() -> None:
    for source in (
        "import torch.distributed as dist",
        "from torch import distributed",
        "from torch.distributed.rendezvous import rendezvous",
        "from torch._C._distributed_c10d import Store",
        "import torch\ntorch.distributed.barrier()",
    ):
        assert list(uses_of_torch_distributed(ast.parse(source))), source
    for source in ("raise E('use --out')", "x = f'{y} --set a=b'", "x = '--out'", "x = 'see `--out`'"):
        assert flags_in(ast.parse(source)), source
    for source in (
        "def f():\n    'Same as --out.'",
        "class A:\n    x: int\n    'The field of --x.'",
        "x = 'a--b -- c'",
    ):
        assert not flags_in(ast.parse(source)), source
    assert long_functions(ast.parse("def f():\n" + "    pass\n" * MOST_LINES_OF_FUNCTION))
    assert not long_functions(ast.parse("def f():\n" + "    pass\n" * (MOST_LINES_OF_FUNCTION - 1)))
    for source in ("x = config.model.stem == 'auto'", "x = c.tune in ('auto', 'all')", "return_ = AUTO"):
        assert uses_of_auto(ast.parse(source)), source
    for source in ("x = engine == 'auto'", "def f(device='auto'): ...", "imshow(aspect='auto')"):
        assert not uses_of_auto(ast.parse(source)), source
    assert unused_imports_kept("import semco.methods  # noqa: F401")
    assert unused_imports_kept("import a.b  # noqa: E402, F401 (registers)")
    assert not unused_imports_kept("def f(x):  # noqa: ARG001")


@every_file
def test_no_file_has_a_vague_name(path: Path) -> None:
    vague = {"util", "utils", "helper", "helpers", "misc", "common"}
    assert not vague & {part.lower() for part in path.relative_to(ROOT).with_suffix("").parts}


@every_file
def test_nothing_is_unpickled_without_a_check(path: Path) -> None:
    """No pickle.load(s) or numpy pickles, torch.load with weights_only=True; an Unpickler only with a find_class."""
    guarded = set()
    for node in nodes(path):
        if isinstance(node, ast.ClassDef) and any("Unpickler" in ast.unparse(base) for base in node.bases):
            own = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            assert "find_class" in own, f"{node.name} accepts any class"
            guarded.update(id(part) for base in node.bases for part in ast.walk(base))
    for node in nodes(path):
        if isinstance(node, ast.Call) and "weights_only=True" in map(ast.unparse, node.keywords):
            guarded.add(id(node.func))
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            assert node.module not in {"pickle", "_pickle", "dill", "joblib"}, ast.unparse(node)
        if isinstance(node, ast.Attribute) and node.attr in {"load", "loads", "Unpickler"}:
            name = ast.unparse(node)
            assert name not in {"pickle.load", "pickle.loads", "joblib.load", "dill.load"}, name
            assert name not in {"pickle.Unpickler", "torch.load"} or id(node) in guarded, name
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert ast.unparse(node.value) == "False"


def test_importing_labels_does_not_import_torch() -> None:
    """Neither the files of labels/ nor the files that they import may import torch when they are imported.

    The text encoder runs a network, so it may import torch when it is used; other files import it only then.
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


def test_import_statements_are_read() -> None:
    """The rules on imports depend on it."""
    path = ROOT / "methods" / "semco.py"
    assert {"semco.pseudo_labels", "semco.losses", "torch", "typing"} <= all_imports(path)
    source = ast.parse("from . import base\nfrom ..data import views as v\nfrom .base import Method")
    names = [name for node in source.body for name in imports_of(node, path)]
    assert names == ["semco.methods.base", "semco.data.views", "semco.methods.base"]


@every_file
def test_no_file_contains_notes_of_unfinished_work(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for word in ("TODO", "FIXME", "XXX", "NotImplementedError"):
        assert word not in text
