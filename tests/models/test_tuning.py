"""Frozen and trained layers: together they are the network, and training changes only what is trained."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from semco.config import ModelConfig
from semco.models import Network, build_network
from semco.models.activation import recompute_activations
from semco.models.backbone import close_up
from semco.models.tuning import Tune, tune_network

CASES = [
    (backbone, tune) for backbone in ("wrn-10-1", "resnet18", "efficientnet-lite0") for tune in ("all", "top", "heads")
]
every_case = pytest.mark.parametrize(("backbone", "tune"), CASES)
every_mode = pytest.mark.parametrize("tune", ["all", "top", "heads"])


def make_network(backbone: str = "wrn-10-1", norm: str = "batch") -> Network:
    """A network whose running statistics are not the initial ones."""
    return copy.deepcopy(_made(backbone, norm))


@cache  # a copy takes a tenth of the time
def _made(backbone: str, norm: str) -> Network:
    torch.manual_seed(0)
    config = ModelConfig(backbone=backbone, pretrained="none", norm=norm)  # type: ignore[arg-type]
    network = build_network(config, ("semantic",), 3, 4, 3, 16)
    generator = torch.Generator().manual_seed(1)
    for name, buffer in network.named_buffers():
        if name.endswith("running_mean"):
            buffer.copy_(0.1 * torch.randn(buffer.shape, generator=generator))
        if name.endswith("running_var"):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))
    return network.eval()


def make_images(count: int = 4) -> Tensor:
    return torch.randn(count, 3, 16, 16, generator=torch.Generator().manual_seed(2))


def norms_of(network: nn.Module) -> list[nn.BatchNorm2d]:
    return [part for part in network.modules() if isinstance(part, nn.BatchNorm2d)]


def train_steps(network: Network, inputs: Tensor, steps: int = 2) -> None:
    optimiser = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=1e-4)
    network.train()
    for _ in range(steps):
        outputs = network(inputs.clone())
        assert outputs.embedding is not None
        (outputs.logits.square().sum() + outputs.embedding.square().sum()).backward()
        optimiser.step()
        optimiser.zero_grad()


@every_case
def test_the_trained_part_of_the_frozen_outputs_is_the_whole_network(backbone: str, tune: Tune) -> None:
    network, images = make_network(backbone), make_images()
    with torch.no_grad():
        expected = network(images)
        tuned = tune_network(network, tune, freeze_norm=True)
        outputs = tuned.trained().eval()(tuned.frozen()(images))
    for column in ("features", "logits", "embedding"):
        torch.testing.assert_close(getattr(outputs, column), getattr(expected, column))


@every_case
def test_the_layers_are_divided_as_the_backbone_says(backbone: str, tune: Tune) -> None:
    network = make_network(backbone)
    tuned = tune_network(network, tune, freeze_norm=False)
    layers = network.backbone.layers()
    count = {"all": 0, "top": network.backbone.first_top_layer, "heads": len(layers)}[tune]
    assert tuned.first == count
    assert tuned.frozen().layers() == layers[:count]
    assert tuned.trained().backbone.layers() == layers[count:]
    assert 0 < network.backbone.first_top_layer < len(layers)
    frozen = {id(p) for layer in layers[:count] for p in layer.parameters()}
    assert all(p.requires_grad == (id(p) not in frozen) for p in network.parameters())


@every_case
def test_complete_is_the_whole_network_with_the_trained_weights(backbone: str, tune: Tune) -> None:
    network, images = make_network(backbone), make_images()
    tuned = tune_network(network, tune, freeze_norm=True)
    with torch.no_grad():
        inputs = tuned.frozen()(images)
    initial = copy.deepcopy(network.state_dict())
    trained = copy.deepcopy(tuned.trained())  # as the EMA weights are
    train_steps(trained, inputs)
    whole = tuned.complete(trained)
    assert not whole.training
    assert not any(p.requires_grad for p in whole.parameters())
    with torch.no_grad():
        torch.testing.assert_close(whole(images).logits, trained.eval()(inputs).logits)
        assert not torch.allclose(whole(images).logits, network.eval()(images).logits)
    assert all(torch.equal(value, initial[name]) for name, value in network.state_dict().items())  # it is a copy


@every_mode
@pytest.mark.parametrize("freeze_norm", [False, True])
@pytest.mark.parametrize("is_cut", [False, True])
def test_training_changes_what_is_trained_and_nothing_else(tune: Tune, freeze_norm: bool, is_cut: bool) -> None:
    """In the part that reads cached outputs (``is_cut``), and in the whole network that reads images."""
    network, images = make_network(), make_images()
    tuned = tune_network(network, tune, freeze_norm)
    before = copy.deepcopy(network.state_dict())
    with torch.no_grad():
        inputs = tuned.frozen()(images) if is_cut else images
    train_steps(tuned.trained() if is_cut else network, inputs)
    frozen = {f"backbone.{name}" for name in _names(network, tuned.first)}
    for name, value in network.state_dict().items():
        is_statistic = name.rsplit(".", 1)[-1] in ("running_mean", "running_var", "num_batches_tracked")
        changes = name not in frozen and not (is_statistic and freeze_norm)
        assert torch.equal(value, before[name]) != changes, name


def _names(network: Network, count: int) -> set[str]:
    """Names in the backbone of the tensors of its first layers."""
    tensors = {id(t) for layer in network.backbone.layers()[:count] for t in layer.state_dict(keep_vars=True).values()}
    return {name for name, tensor in network.backbone.state_dict(keep_vars=True).items() if id(tensor) in tensors}


@every_mode
@pytest.mark.parametrize("freeze_norm", [False, True])
def test_frozen_layers_and_norms_stay_in_evaluation_mode(tune: Tune, freeze_norm: bool) -> None:
    network = make_network()
    tuned = tune_network(network, tune, freeze_norm)
    network.train()
    layers = network.backbone.layers()
    assert not any(part.training for layer in layers[: tuned.first] for part in layer.modules())
    assert all(layer.training for layer in layers[tuned.first :] if not isinstance(layer, nn.BatchNorm2d))
    trained_norms = [norm for layer in layers[tuned.first :] for norm in norms_of(layer)]
    assert all(norm.training != freeze_norm for norm in trained_norms)
    network.eval()
    assert not any(part.training for part in network.modules())


@every_mode
def test_a_copy_of_the_trained_part_freezes_its_own_norms(tune: Tune) -> None:
    tuned = tune_network(make_network(), tune, freeze_norm=True)
    part = copy.deepcopy(tuned.trained()).train()
    assert not any(norm.training for norm in norms_of(part))
    own = {id(module) for module in part.modules()}
    assert all(id(layer) in own for layer in part.evaluated_layers)  # no copies of frozen layers are carried along


@every_case
@pytest.mark.parametrize("recompute", [False, True])
def test_cached_inputs_are_not_overwritten(backbone: str, tune: Tune, recompute: bool) -> None:
    """A method may pass the same view twice."""
    network = make_network(backbone)
    tuned = tune_network(network, tune, freeze_norm=False)
    if recompute:
        recompute_activations(network)
    with torch.no_grad():
        inputs = tuned.frozen()(make_images())
    before, part = inputs.clone(), tuned.trained().train()
    part(inputs).logits.sum().backward()
    with torch.no_grad():
        part(inputs)
        part.eval()(inputs)
    assert torch.equal(inputs, before)


def test_a_network_without_normalisation_can_be_tuned() -> None:
    network = make_network(norm="none")
    tuned = tune_network(network, "top", freeze_norm=True)
    assert tuned.trained().evaluated_layers == []


def test_a_close_up_is_the_mirrored_centre_enlarged() -> None:
    ramp = torch.arange(13.0).expand(2, 1, 13, 13)  # the centre has 10 columns: 1 to 10
    found = close_up(ramp)
    assert found.shape == ramp.shape
    expected = 1 + (torch.arange(13) + 0.5) * 10 / 13 - 0.5  # where each pixel of the enlarged centre lies
    torch.testing.assert_close(found[0, 0, 6, 2:-2], expected.flip(0)[2:-2], atol=0.06, rtol=0)  # without the edges
