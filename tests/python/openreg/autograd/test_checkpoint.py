"""Dropout and activation checkpointing: who repeats a draw gets the same numbers."""

import pytest
import torch
from torch import nn, openreg
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


def ones(*shape: int, device: str = "openreg", **options) -> torch.Tensor:
    return torch.ones(*shape, device=device, **options)


def test_dropout_is_repeated_by_the_seed():
    openreg.manual_seed(1)
    first, second = dropout(ones(100)), dropout(ones(100))
    openreg.manual_seed(1)
    assert torch.equal(dropout(ones(100)), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_the_fraction_and_scales_the_rest(p):
    openreg.manual_seed(1)
    dropped = dropout(ones(20_000), p)
    kept = dropped[dropped != 0]
    assert abs(1 - len(kept) / 20_000 - p) < 0.02
    assert torch.allclose(kept.cpu(), torch.tensor(1 / (1 - p)))


def test_dropout_draws_only_where_it_drops():
    before = openreg.get_rng_state()
    layer = nn.Dropout(0.5).eval()
    assert torch.equal(layer(ones(100)), ones(100))
    assert torch.equal(dropout(ones(100), p=0.0), ones(100))
    assert torch.equal(dropout(ones(100), p=1.0), torch.zeros(100, device="openreg"))
    assert torch.equal(openreg.get_rng_state(), before)
    assert not torch.equal(layer.train()(ones(100)), ones(100))
    assert not torch.equal(openreg.get_rng_state(), before)


@pytest.mark.parametrize("inplace", [False, True])
def test_backward_of_dropout_uses_the_forwards_mask(inplace):
    leaf = ones(100, requires_grad=True)
    dropped = dropout(leaf * 1, 0.3, inplace=inplace)
    dropped.sum().backward()
    assert torch.equal(leaf.grad, dropped.detach())


def grads_of(model: nn.Module, run) -> tuple[torch.Tensor, list[torch.Tensor]]:
    torch.manual_seed(5)
    model.zero_grad()
    result = run(torch.linspace(0, 1, 32, device="openreg:1").reshape(4, 8))
    result.sum().backward()
    return result, [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing_replays_the_devices_dropout(use_reentrant):
    """On a device that is not the current one, so its state must be found."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 8), nn.Dropout())
    model.to("openreg:1")

    def run(x: torch.Tensor) -> torch.Tensor:
        x.requires_grad_()
        result = checkpoint(model, x, use_reentrant=use_reentrant)
        torch.rand(9, device="openreg:1")  # the replay must not go on from here
        return result

    expected, expected_grads = grads_of(model, model)
    result, grads = grads_of(model, run)
    assert torch.equal(result, expected)
    assert all(map(torch.equal, grads, expected_grads))


def test_checkpointing_leaves_the_state_as_without_it():
    x = ones(100, requires_grad=True)
    torch.manual_seed(5)
    dropout(x * 1).sum().backward()
    expected = openreg.get_rng_state(), torch.get_rng_state()
    torch.manual_seed(5)
    checkpoint(dropout, x * 1, use_reentrant=False).sum().backward()
    assert torch.equal(openreg.get_rng_state(), expected[0])
    assert torch.equal(torch.get_rng_state(), expected[1])


def test_checkpointing_without_kept_states_draws_anew():
    leaf = ones(1000, requires_grad=True)
    dropped = checkpoint(
        lambda x: dropout(x) * leaf,
        leaf * 1,
        use_reentrant=False,
        preserve_rng_state=False,
    )
    dropped.sum().backward()
    assert not torch.equal(leaf.grad, 2 * dropped.detach())


def test_checkpointing_in_parts_replays_the_devices_dropout():
    model = nn.Sequential(*(nn.Dropout(0.2) for _ in range(4)))
    leaf = ones(1000, requires_grad=True)
    dropped = checkpoint_sequential(model, 2, leaf * 1, use_reentrant=False)
    dropped.sum().backward()
    assert torch.equal(leaf.grad, dropped.detach())
