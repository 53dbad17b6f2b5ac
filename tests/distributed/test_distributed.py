"""Several processes: what they compute together is what one would, and none is left behind."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed import TCPStore

from semco.config import Config, configure, merge
from semco.data.batches import Batches
from semco.distributed.launch import launch
from semco.distributed.processes import (
    Processes,
    broadcast_from_main,
    gather_uneven_rows,
    process_group,
    same_error_everywhere,
    share_gradients,
    sum_over_processes,
)
from semco.errors import UserError
from semco.experiment import resume, train, write
from semco.run.checkpoint import load_checkpoint
from semco.run.folder import RunFolder
from semco.training.exchange import StepExchange
from semco.training.loop import Trainer
from semco.training.signals import Interrupted
from semco.training.statistics import Meters
from tests.conftest import CLASSES
from tests.forking import fork_server, forked_python, start_semco

# Processes that import torch, on a busy machine.
pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("no_page")]
METHODS = ("supervised", "fixmatch", "semco", "semco_plus")
# One store for all meetings of a group of processes, each of which is the next restart for it.
AGENT = {"TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_RESTART_COUNT": 0}
# Views that nothing random changes: then images per step are all that the number of processes could touch.
PLAIN_VIEWS = {"flip": False, "pad": 0.0, "operations": 0, "cutout": 0.0}


def in_processes(count: int, function: Callable[..., None], *arguments: object) -> None:
    """Call a function of this module in so many new processes that know of each other as torchrun says it."""
    context = fork_server()
    # As torchrun does, whose processes need not wait until one of them has opened the store.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    started = [
        context.Process(target=_child, args=(rank, count, store.port, function, *arguments)) for rank in range(count)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(560)
    assert [process.exitcode for process in started] == [0] * count


def _child(rank: int, count: int, port: int, function: Callable[..., None], *arguments: object) -> None:
    values = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in (values | AGENT).items()}
    torch.set_num_threads(1)
    write.write_report = lambda *_: Path()  # as the fixture `no_page` does in the process of the tests
    function(*arguments)
    # As the command line does under torchrun: gloo's threads may fail a process that has nothing left to do.
    os._exit(0)


def _meet_again() -> None:
    os.environ["TORCHELASTIC_RESTART_COUNT"] = str(int(os.environ["TORCHELASTIC_RESTART_COUNT"]) + 1)


def config_of(values: dict[str, Any], method: str, **over: Any) -> Config:
    # The rate of short runs is too high for networks without normalisation.
    plain = {
        "augment": PLAIN_VIEWS,
        "method": {"name": method},
        "training": {"steps": 5, "log_every": 2},
        "optim": {"lr": 0.03},
    }
    return configure(options=merge(merge(values, plain), over))


def lines_of(run: Path) -> list[dict[str, Any]]:
    """Metrics without the clock."""
    return [{k: v for k, v in line.items() if k != "seconds"} for line in RunFolder(run).metrics()]


def tensors_of(run: Path) -> dict[str, Tensor]:
    loaded = load_checkpoint(run / "checkpoints")
    assert loaded is not None
    return loaded[0]


def with_counts_of_all(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Add the counts of pseudo-labels up over the processes that saved them (P, ...); the slots have no order."""
    pool = "meters.pool."
    for name in ("current", "seen", "retained"):
        tensors[pool + name] = tensors[pool + name].sum(dim=0)
    class_ids, counts = (tensors.pop(pool + name) for name in ("wrong_class", "wrong_count"))  # (P, N, S)
    table = torch.zeros(class_ids.shape[1], 1 + len(CLASSES), dtype=counts.dtype)  # column 0 counts empty slots
    for ids, own in zip(class_ids.long(), counts, strict=True):
        table.scatter_add_(1, ids + 1, own)
    return tensors | {"wrong": table}


def assert_close(one: Path, two: Path) -> None:
    """Weights, averages, momenta and every logged number agree to 1e-5."""
    first, second = (with_counts_of_all(tensors_of(run)) for run in (one, two))
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], atol=1e-5, rtol=1e-5)
    for mine, other in zip(lines_of(one), lines_of(two), strict=True):
        assert mine.keys() == other.keys()
        for name, value in mine.items():
            # After a few steps two classes may be equally likely up to rounding: one of 16 images may change its class.
            slack = 1 / 16 if name == "validation_accuracy" else 1e-5
            assert value == (other[name] and pytest.approx(other[name], abs=slack, rel=1e-5)), name


def assert_equal(one: Path, two: Path) -> None:
    """Bit for bit."""
    first, second = tensors_of(one), tensors_of(two)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert lines_of(one) == lines_of(two)


# --- the group ends ---


def _end_while_a_thread_of_the_group_waits_for_the_gil() -> None:
    processes = Processes.from_environment()
    if not processes.is_main:
        with process_group(processes):
            share_gradients(nn.Linear(1, 1), processes)
            time.sleep(0.2)
            os._exit(0)  # and so the message that the other one waits for never comes
    faulthandler.dump_traceback_later(20, exit=True)  # in the deadlock no thread of Python runs
    with process_group(processes):
        shared = share_gradients(nn.Linear(1, 1), processes)
        # Only the group still needs these tensors.
        torch.distributed.all_gather([torch.zeros(1), torch.zeros(1)], torch.zeros(1), async_op=True)
    sys.setswitchinterval(60)  # a thread that waits for the GIL does not get it between two lines
    sleep_with_the_gil = ctypes.PyDLL(None).usleep
    sleep_with_the_gil(500_000)  # the other process ends; the message fails, and its tensor is to be freed
    del shared
    gc.collect()


def test_the_end_of_a_group_is_no_deadlock() -> None:
    in_processes(2, _end_while_a_thread_of_the_group_waits_for_the_gil)


# --- two processes are one ---


def train_all(runs: dict[str, str]) -> None:
    for out, config in runs.items():
        train(Config.from_yaml(config), out)
        _meet_again()


def test_two_processes_compute_what_one_does(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """Without normalisation layers: half the batch in each of two processes, the same weights and metrics."""
    configs = {method: config_of(tiny_values, method, model={"norm": "none"}) for method in METHODS}
    in_processes(2, train_all, {str(tmp_path / f"two-{m}"): config.to_yaml() for m, config in configs.items()})
    for method, config in configs.items():
        train(config, tmp_path / f"one-{method}")
        assert_close(tmp_path / f"one-{method}", tmp_path / f"two-{method}")
        results = [RunFolder(tmp_path / f"{n}-{method}").result() for n in ("one", "two")]
        assert results[0].test_accuracy == results[1].test_accuracy
        assert results[0].test_images == results[1].test_images == 80


def test_synchronised_statistics_make_one_batch_of_all(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    # Fixed thresholds retain nothing here. Where much is learnt from the pool, weights that differ by 2e-7 may end 1e-4
    # apart after four steps, in one process as well (kinks of activations, probably).
    few = merge(tiny_values, {"method": {"name": "semco_plus", "thresholds": "fixed"}})
    synced = config_of(few, "semco_plus", training={"sync_batch_norm": True, "steps": 4})
    apart = config_of(few, "semco_plus", training={"steps": 4})
    runs = {str(tmp_path / "sync"): synced.to_yaml(), str(tmp_path / "apart"): apart.to_yaml()}
    in_processes(2, train_all, runs)
    train(synced, tmp_path / "one")
    assert_close(tmp_path / "one", tmp_path / "sync")
    with pytest.raises(AssertionError):
        assert_close(tmp_path / "one", tmp_path / "apart")


# --- signals, mistakes, numbers that are not finite ---


class StopAfter:
    """Sends a signal to its own process after a step, in one process only."""

    def __init__(self, step: int, rank: int) -> None:
        self.step, self.rank = step, rank

    def install(self) -> None:
        original = Trainer._train
        stop_at, active = self.step, os.environ["RANK"] == str(self.rank)

        def signalled(trainer: Trainer, *arguments: Any) -> None:
            if active and trainer.state.step == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)
            original(trainer, *arguments)

        Trainer._train = signalled  # type: ignore[method-assign]


def interrupted(config: str, out: str) -> None:
    StopAfter(step=4, rank=1).install()
    with pytest.raises(Interrupted) as stopped:
        train(Config.from_yaml(config), out)
    assert stopped.value.exit_code == 143
    assert stopped.value.step == 6  # the vote of step 5 is heard by all in the next one


def test_a_signal_to_one_stops_all_and_another_number_goes_on(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """Interrupted in two processes between two log lines, ended in one: as if one had done it all."""
    config = config_of(tiny_values, "fixmatch", model={"norm": "none"}, training={"steps": 7, "log_every": 4})
    in_processes(2, interrupted, config.to_yaml(), str(tmp_path / "two"))
    resume(tmp_path / "two")
    train(config, tmp_path / "one")
    assert_close(tmp_path / "one", tmp_path / "two")


def broken(config: str, out: str) -> None:
    if os.environ["RANK"] == "1":
        original = Batches.batch

        def poisoned(batches: Batches, step: int) -> Any:
            batch, truth = original(batches, step)
            batch.labelled.weak[0].fill_(math.nan if step == 3 else 0.0)
            return batch, truth

        Batches.batch = poisoned  # type: ignore[method-assign]
    with pytest.raises(UserError, match="supervised became non-finite at step 3"):
        train(Config.from_yaml(config), out)


def test_a_loss_that_breaks_in_one_stops_all(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    in_processes(2, broken, config_of(tiny_values, "supervised").to_yaml(), str(tmp_path / "run"))


def primitives() -> None:
    """In three processes: parts of uneven length, the greatest, the main one's word, mistakes of one."""
    processes = Processes.from_environment()
    with process_group(processes):
        for count in (0, 1, 2, 7):
            rows = torch.arange(count * 2.0).view(count, 2)
            assert torch.equal(gather_uneven_rows(rows[processes.share(count)], processes), rows)
        assert broadcast_from_main(processes.rank + 5, processes) == 5
        sums = sum_over_processes({"a": torch.tensor(processes.rank), "b": torch.ones(2)}, processes)
        assert int(sums["a"]) == 3
        assert sums["b"].tolist() == [3.0, 3.0]
        with pytest.raises(UserError, match="only the last knows"):
            _fail_in_the_last(processes)
        _exchange(processes)
        _meters(processes)


def _fail_in_the_last(processes: Processes) -> None:
    with same_error_everywhere(processes):
        if processes.rank == 2:
            raise UserError("only the last knows")


class Remembering(nn.Module):
    """A part of a method with a row for each of six images."""

    per_image_buffers = ("bank",)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bank", torch.full((6, 2), -1.0))


class Stateful(nn.Module):
    per_image_buffers = ("last",)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.full((6,), -1))
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("constant", torch.tensor(0.0), persistent=False)
        self.policy = Remembering()


def _exchange(processes: Processes) -> None:
    """Each kind of buffer is brought together in its own way; a vote is heard one step later by all."""
    rank, method = processes.rank, Stateful()
    exchange = StepExchange(nn.BatchNorm2d(1), method, processes)
    index = torch.tensor([2 * rank])
    method.mean += rank
    method.steps += 1
    method.constant += rank
    method.last[index] = rank
    method.policy.bank[index] = 10.0 + rank
    losses = exchange({"a": torch.tensor(float(rank))}, index, signal.SIGINT if rank == 1 else None)
    assert losses["a"] == 1.0
    assert method.mean.tolist() == [1.0, 1.0]
    assert int(method.steps) == 1
    assert float(method.constant) == rank
    assert method.last.tolist() == [0, -1, 1, -1, 2, -1]
    assert method.policy.bank[:, 0].tolist() == [10.0, -1.0, 11.0, -1.0, 12.0, -1.0]
    assert exchange.stop(None) is None
    exchange({"a": torch.tensor(0.0)}, index, None)
    assert exchange.stop(None) == signal.SIGINT


def _meters(processes: Processes) -> None:
    """Saved by three, the sums of each come back to each, and one process gets the shares of all."""
    meters = Meters(torch.tensor([0, 1]))
    meters.sums = {"steps": torch.tensor(2.0), "loss": torch.tensor(float(processes.rank))}
    meters.pool.current += processes.rank + 1
    state = meters.state(processes)
    again, alone = Meters(torch.tensor([0, 1])), Meters(torch.tensor([0, 1]))
    again.load(state, processes)
    assert all(torch.equal(again.sums[name], meters.sums[name]) for name in meters.sums)
    assert (again.pool.current == processes.rank + 1).all()
    alone.load(state, Processes())
    assert (float(alone.sums["steps"]), float(alone.sums["loss"])) == (2.0, 1.0)
    assert (alone.pool.current == 1 + 2 + 3).all()


def test_what_processes_tell_each_other() -> None:
    in_processes(3, primitives)


# --- torchrun ---


def dying(config: str, out: str) -> int:
    """The second process dies at step 6 when it is first started."""
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        original = Trainer._train

        def fatal(trainer: Trainer, *arguments: Any) -> None:
            if trainer.state.step == 6:
                os.kill(os.getpid(), signal.SIGKILL)
            original(trainer, *arguments)

        Trainer._train = fatal  # type: ignore[method-assign]
    train(Config.from_yaml(config), out)
    return 0


def launch_dying(config: str, out: str) -> None:
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", *AGENT):
        del os.environ[name]
    assert launch(2, dying, config, out) == 0


def test_a_killed_worker_loses_nothing(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    """SIGKILL in one of two processes: torchrun starts both again, and the run ends as an undisturbed one."""
    config = configure(options=merge(tiny_values, {"training": {"log_every": 5}})).to_yaml()
    in_processes(2, train_all, {str(tmp_path / "whole"): config})
    in_processes(1, launch_dying, config, str(tmp_path / "killed"))
    assert_equal(tmp_path / "whole", tmp_path / "killed")
    results = [RunFolder(tmp_path / name).result() for name in ("whole", "killed")]
    assert results[0].per_class == results[1].per_class


def command(values: dict[str, Any], folder: Path, **training: Any) -> list[str]:
    file = folder / "config.yaml"
    file.write_text(configure(options=merge(values, {"training": training})).to_yaml())
    return ["-m", "semco", "train", "--config", str(file), "--out", str(folder / "run"), "--json"]


def test_torchrun_starts_the_command_line(tiny_values: dict[str, Any], tmp_path: Path) -> None:
    torchrun = [forked_python(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*torchrun, *command(tiny_values, tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 8  # printed by one process only
    # The same once more, by our own command: the folder exists, which is reported once, in one sentence.
    _, _, *again = command(tiny_values, tmp_path)
    refused = start_semco(*again, "--processes", "2")
    output, errors = refused.communicate(timeout=500)
    assert refused.returncode == 2
    assert output == ""
    assert len(errors.splitlines()) == 1
    assert "holds a finished run" in errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 138)])
def test_a_signal_to_the_command_saves_and_keeps_its_exit_code(
    tiny_values: dict[str, Any], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    _, _, *long = command(tiny_values, tmp_path, steps=100_000, checkpoint_every=100_000, log_every=1)
    started = start_semco(*long, "--processes", "2")
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not metrics.exists() and started.poll() is None:
        time.sleep(0.05)
    started.send_signal(number)
    _, errors = started.communicate(timeout=500)
    assert started.returncode == code, errors
    assert errors.count(f"Resume with: semco resume {tmp_path / 'run'} --processes 2\n") == 1
    assert "Traceback" not in errors
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 1
