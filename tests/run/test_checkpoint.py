"""Checkpoints: whole or not there, the newest readable one wins."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import torch

from semco.config import ModelConfig, OptimConfig
from semco.errors import UserError
from semco.models import Network, build_network
from semco.run.checkpoint import (
    add_prefix,
    checkpoints,
    load_checkpoint,
    save_checkpoint,
    with_prefix,
)
from semco.training.optimiser import build_optimiser
from semco.training.state import _load_momenta, _momenta


def test_round_trip_and_only_two_are_kept(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        save_checkpoint(tmp_path, step, {"a.x": torch.full((2,), float(step))}, {"seconds": 1.5})
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000020.safetensors", "step-000000030.safetensors"]
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    tensors, state = loaded
    assert torch.equal(tensors["a.x"], torch.tensor([30.0, 30.0]))
    assert state["step"] == 30
    assert state["seconds"] == 1.5
    assert not list(tmp_path.glob(".*")), "no temporary file is left"


def test_a_damaged_newest_one_gives_way_to_the_one_before(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, {"x": torch.ones(1)}, {})
    newest = save_checkpoint(tmp_path, 2, {"x": torch.ones(1)}, {})
    newest.write_bytes(newest.read_bytes()[:-3])
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded[1]["step"] == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'\\"step\\": 2', b'\\"step\\": 9'),
        (b'\\"digest\\"', b'\\"digets\\"'),
        (b'\\"format\\"', b'\\"fromat\\"'),
        (b'"semco"', b'"sexco"'),
        (b'\\"seconds\\": 1.5', b'\\"seconds\\": 1x5'),
    ],
)
def test_a_damaged_header_gives_way_too(tmp_path: Path, old: bytes, new: bytes) -> None:
    save_checkpoint(tmp_path, 1, {"x": torch.ones(1)}, {"seconds": 1.5})
    newest = save_checkpoint(tmp_path, 2, {"x": torch.ones(1)}, {"seconds": 1.5})
    content = newest.read_bytes()
    assert content.count(old) == 1
    newest.write_bytes(content.replace(old, new))
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded[1]["step"] == 1


def test_what_a_kill_left_behind_goes_with_the_next_save(tmp_path: Path) -> None:
    (tmp_path / ".step-000000001.safetensors.ab12_xyz.tmp").write_bytes(b"half")
    save_checkpoint(tmp_path, 2, {"x": torch.ones(1)}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000002.safetensors"]


def test_nothing_readable_is_an_error_and_nothing_at_all_is_none(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None
    save_checkpoint(tmp_path, 1, {"x": torch.ones(1)}, {}).write_bytes(b"no")
    with pytest.raises(UserError, match="no checkpoint"):
        load_checkpoint(tmp_path)


def test_a_write_that_the_system_refuses_is_reported_and_the_old_checkpoint_stays(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the error comes from the real write."""
    save_checkpoint(tmp_path, 1, {"w": torch.zeros(4)}, {})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(UserError, match=r"cannot write .*step-000000002\.safetensors: "):
            save_checkpoint(tmp_path, 2, {"w": torch.zeros(100_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.safetensors"]


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, 1, {"x": torch.ones(1)}, {})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("semco.run.checkpoint.save_file", full)
    with pytest.raises(UserError, match="No space left"):
        save_checkpoint(tmp_path, 2, {"x": torch.ones(1)}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.safetensors"]


def test_prefixes() -> None:
    tensors = {**add_prefix("network", {"w": torch.ones(1)}), **add_prefix("net", {"w": torch.zeros(1)})}
    assert list(with_prefix("net", tensors)) == ["w"]
    assert torch.equal(with_prefix("net", tensors)["w"], torch.zeros(1))


def test_momentum_survives() -> None:
    """With one rate for everything, and with another one for the backbone."""

    def stepped(config: OptimConfig) -> tuple[Network, torch.optim.SGD]:
        torch.manual_seed(0)
        network = build_network(ModelConfig(backbone="wrn-10-1"), (), 3, 4, 3, 8)
        return network, build_optimiser(config, network, torch.nn.Linear(2, 2))

    def step(network: Network, optimiser: torch.optim.SGD) -> None:
        optimiser.zero_grad()
        network(torch.ones(2, 3, 8, 8)).logits.sum().backward()
        optimiser.step()

    for backbone_lr in (0.03, 0.001):
        config = OptimConfig(lr=0.03, backbone_lr=backbone_lr)
        network, optimiser = stepped(config)
        step(network, optimiser)
        other, fresh = stepped(config)
        other.load_state_dict(network.state_dict())
        _load_momenta(fresh, _momenta(optimiser))
        step(network, optimiser)
        step(other, fresh)
        for mine, theirs in zip(network.parameters(), other.parameters(), strict=True):
            assert torch.equal(mine, theirs)
