"""The step that compiles: signals are answered at once, no compiler is left, damaged code is compiled again."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from semco.training.compiler import processes as compiler_processes
from semco.training.compiler.cache import CompilerCache
from semco.training.compiler.compilation import CompilationError, compiling, take_compiling_step
from semco.training.compiler.processes import Process, end_compilers, find_compilers, list_processes, stop_compiling
from semco.training.signals import Interrupted, StopRequest, catch_signals

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")  # torch's own


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def compiler(cache: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like a compiler: it names a file of the cache and has started another program."""
    command = ["sh", "-c", "sleep 120 & echo $!; wait $!; exit $?", "c++", f"{cache}/x.so"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()  # the other program has started
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def ended_by_its_program(compiler: subprocess.Popen[bytes]) -> bool:
    """Whether the compiler ended because SIGTERM had ended the program that it waited for."""
    return compiler.wait(60) == 128 + signal.SIGTERM


def signal_and_wait(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    time.sleep(120)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_step_and_its_compilers_at_once(
    number: signal.Signals, code: int, compiler: subprocess.Popen[bytes], cache: Path
) -> None:
    start = time.monotonic()
    with pytest.raises(Interrupted) as stopped, catch_signals() as stop, compiling(stop, 7, cache / "run"):
        signal_and_wait(number)
    assert (stopped.value.exit_code, stopped.value.step, stopped.value.run) == (code, 7, cache / "run")
    assert stop.on_first is None
    assert ended_by_its_program(compiler)
    assert time.monotonic() - start < 60  # it did not wait for the end of the step


def test_a_signal_before_compiling_is_answered_first(tmp_path: Path) -> None:
    with catch_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted), compiling(stop, 0, tmp_path):
            raise AssertionError("it began to compile")


def test_only_compilers_are_ended(compiler: subprocess.Popen[bytes], cache: Path) -> None:
    other = subprocess.Popen(["sleep", "120"])
    try:
        found = find_compilers(str(cache))
        assert [each.parent for each in found] == [os.getpid(), compiler.pid]
        end_compilers()
        assert ended_by_its_program(compiler)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_compiler_is_spared_while_its_program_starts(
    compiler: subprocess.Popen[bytes], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process has no command for a moment while it becomes another program; it has not ended."""
    listed = [each._replace(command="") if each.parent == compiler.pid else each for each in list_processes()]
    monkeypatch.setattr(compiler_processes, "list_processes", lambda: listed)
    assert [each.command for each in find_compilers(str(cache))][1:] == [""]
    end_compilers()
    assert ended_by_its_program(compiler)


def test_a_process_that_has_ended_is_not_listed() -> None:
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it has ended, but is not removed yet
        assert ended.pid not in [each.pid for each in list_processes()]


def test_processes_are_listed_without_a_proc_file_system(
    compiler: subprocess.Popen[bytes], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output is what `ps` of macOS prints."""
    printed = (
        f"    1     0 Ss   /sbin/launchd\n{compiler.pid} {os.getpid()} S+   c++ {cache}/x.cpp -o {cache}/x.so\n"
        f"    7 {compiler.pid} Z    (cc1plus)\n"
    )
    monkeypatch.setattr(Path, "exists", lambda _: False)
    monkeypatch.setattr(compiler_processes.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=printed))
    assert [each.pid for each in list_processes()] == [1, compiler.pid]
    assert [each.pid for each in find_compilers(str(cache))] == [compiler.pid]


@pytest.mark.usefixtures("cache")
def test_what_is_yet_to_be_compiled_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three compilations in two threads: two are ended, the third never starts, and nobody waits for any of them."""
    started = threading.Barrier(3)

    def compile_file() -> int:
        with subprocess.Popen(["sleep", "120"]) as process:
            started.wait(60)
            return process.wait()

    monkeypatch.setattr(compiler_processes, "find_compilers", lambda _: _children())
    pool = functools.lru_cache(1)(lambda: ThreadPoolExecutor(2))
    stub = SimpleNamespace(AsyncCompile=SimpleNamespace(pool=pool))
    monkeypatch.setitem(sys.modules, "torch._inductor.async_compile", stub)
    monkeypatch.setattr(compiler_processes, "forget_compiled_code", lambda: None)
    jobs = [pool().submit(compile_file) for _ in range(3)]
    started.wait(60)
    before = time.monotonic()
    stop_compiling()
    assert time.monotonic() - before < 60  # it did not wait for the compilers
    assert [job.result() for job in jobs[:2]] == [-signal.SIGTERM] * 2
    assert jobs[2].cancelled()
    assert pool.cache_info().currsize == 0  # the next compilation makes a new pool


def _children() -> list[Process]:
    return [each for each in list_processes() if each.parent == os.getpid() and each.command.startswith("sleep")]


class Counter(nn.Module):
    """Counts its steps in a buffer and fails at the first ones."""

    def __init__(self, failures: int, error: Exception) -> None:
        super().__init__()
        self.failures, self.error, self.attempts = failures, error, 0
        self.register_buffer("steps", torch.tensor(0))

    def step(self) -> None:
        self.steps += 1
        self.attempts += 1
        if self.attempts <= self.failures:
            raise self.error


@pytest.mark.parametrize(
    ("failures", "content", "can_repeat", "attempts"),
    [
        (0, b"code", True, 1),
        (1, b"code", True, 2),
        (2, b"code", True, 2),  # once only
        (1, b"code", False, 1),
        (1, b"", True, 1),  # nothing was in the cache, so another attempt would fail, too
    ],
)
def test_damaged_code_is_compiled_again_once(
    failures: int, content: bytes, can_repeat: bool, attempts: int, tmp_path: Path
) -> None:
    from torch._dynamo.exc import TorchDynamoException  # takes two seconds to import

    folder, counter = tmp_path / "cache", Counter(failures, TorchDynamoException("x.so: invalid ELF header\n\ndetails"))
    folder.mkdir()
    (folder / "x.so").write_bytes(content)
    cache = CompilerCache(folder, is_own=True)
    with catch_signals() as stop:
        guard = partial(compiling, stop, 0, tmp_path / "run")
        take = partial(take_compiling_step, counter.step, guard, cache, [counter], can_repeat=can_repeat)
        if failures < attempts:
            assert take() == (failures > 0)
        else:
            with pytest.raises(CompilationError, match=r"not be compiled \(x.so: invalid ELF header\)"):
                take()
    assert counter.attempts == attempts
    assert list(folder.rglob("*.so")) == ([folder / "x.so"] if failures == 0 else [])
    if failures < attempts:
        assert int(counter.steps) == 1


@pytest.mark.parametrize("kind", ["compiler", "import", "disk"])
def test_errors_that_torch_does_not_wrap_are_one_sentence(kind: str, tmp_path: Path) -> None:
    """So it raises those of code that it reads from its cache."""
    from torch._inductor.exc import CppCompileError

    errors = {"import": ImportError("too short"), "disk": OSError(28, "full")}
    error = errors.get(kind) or CppCompileError(["c++"], "no space")
    stop, raises = StopRequest(), pytest.raises(CompilationError, match="could not be compiled")
    with raises, compiling(stop, 0, tmp_path):
        raise error
