"""Values that the shell completes."""

from __future__ import annotations

import os
import subprocess
import sys

from semco.cli.completion import complete_method, complete_methods, complete_recipes, method_names
from semco.methods import Method


def test_methods_are_those_of_the_registry() -> None:
    assert set(method_names()) == {
        name for name, each in Method.registry.items() if each.__module__.startswith("semco.")
    }


def test_one_method() -> None:
    assert complete_method("fix") == ["fixmatch"]
    assert complete_method("no such") == []


def test_the_last_of_several() -> None:
    assert complete_methods("fixmatch,free") == ["fixmatch,freematch"]
    assert complete_recipes("cifar100-2500-mu3,semco_p") == ["cifar100-2500-mu3,semco_plus"]
    assert "paper" in complete_recipes("pap")


def test_the_shell_gets_them_without_torch() -> None:
    words = {"_SEMCO_COMPLETE": "complete_bash", "COMP_WORDS": "semco train --method fix", "COMP_CWORD": "3"}
    lines = ("import sys", "from semco.cli.main import app", "try: app(prog_name='semco')")
    code = "\n".join([*lines, "finally: print('torch' in sys.modules)"])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | words, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["fixmatch", "False"]
