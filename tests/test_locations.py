"""The suite passes wherever the clone lies, and with the package installed from a wheel."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Tests that start programs, read files of the package, or look at paths of its source.
PART = ("test_torture.py", "cli", "report/test_page.py", "studio/test_studio_cli.py", "labels/test_plain_store.py")
OF_SOURCE = ("test_architecture.py", "test_docs.py")
WITHOUT_SOURCE = ("benchmarks", "docs", "scripts", "tests")
FOLDERS = (*WITHOUT_SOURCE, "src")


def copy_clone(clone: Path, folders: tuple[str, ...] = FOLDERS) -> Path:
    """Copy what the repository holds, without caches, environments and runs, and return the new folder."""
    clone.mkdir()
    for name in folders:
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, clone)
    return clone


def run_part(clone: Path, package: Path, *files: str) -> None:
    """Run a part of the tests of ``clone`` with the package in ``package``, by a Python that lies in the clone too."""
    python = Path(sys.executable)
    if sys.prefix != sys.base_prefix:
        (clone / ".venv").symlink_to(sys.prefix)
        python = clone / ".venv" / python.relative_to(sys.prefix)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "SEMCO"))}
    environment = inherited | {"PYTHONPATH": str(package)}
    where = [str(python), "-c", "import semco; print(semco.__file__)"]
    found = subprocess.run(where, cwd=clone, env=environment, capture_output=True, text=True, check=True).stdout
    assert found.strip() == str(package / "semco" / "__init__.py")
    command = [str(python), "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *(f"tests/{file}" for file in files)]
    finished = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-4000:]


@pytest.mark.parametrize("name", [*PART, *OF_SOURCE])
def test_the_part_exists(name: str) -> None:
    """The slow tests run seldom; a file that is renamed shows here."""
    assert (ROOT / "tests" / name).exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["semco", "mein Ordner für semco"])
def test_a_clone_may_lie_in_any_folder(tmp_path: Path, name: str) -> None:
    clone = copy_clone(tmp_path / name)
    run_part(clone, clone / "src", *PART, *OF_SOURCE)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("setuptools") is None, reason="a wheel is built by setuptools")
def test_an_installed_wheel_holds_all_that_the_package_reads(tmp_path: Path) -> None:
    source, clone = copy_clone(tmp_path / "source"), copy_clone(tmp_path / "clone", WITHOUT_SOURCE)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, source]
    subprocess.run(list(map(str, build)), check=True)
    (wheel,) = tmp_path.glob("semco-*.whl")
    install = [*pip, "install", "--no-deps", "--target", tmp_path / "installed", wheel]
    subprocess.run(list(map(str, install)), check=True)
    run_part(clone, tmp_path / "installed", *PART)
