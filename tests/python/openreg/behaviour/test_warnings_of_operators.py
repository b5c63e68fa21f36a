"""Operators warn as on the CPU: the same words, as often, at the call."""

import warnings

import pytest
import torch
from compare import DEVICE
from observe import all_warnings, assert_same_behaviour
from torch.nn import functional


def ones(*shape: int, device: str) -> torch.Tensor:
    return torch.ones(shape, device=device)


def bytes_mask(device: str) -> torch.Tensor:
    return torch.tensor([1, 0, 1], dtype=torch.uint8, device=device)


def complex_ones(device: str) -> torch.Tensor:
    return torch.ones(3, dtype=torch.cfloat, device=device)


# By the number of warnings of each.
PROGRAMS = {
    "add": (1, lambda d: torch.add(ones(3, device=d), 1, out=ones(2, device=d))),
    "abs": (1, lambda d: torch.abs(ones(3, device=d), out=ones(2, device=d))),
    "mm": (
        1,
        lambda d: torch.mm(
            ones(3, 3, device=d), ones(3, 3, device=d), out=ones(2, device=d)
        ),
    ),
    "sum": (1, lambda d: torch.sum(ones(5, 3, device=d), 0, out=ones(2, device=d))),
    "cat": (1, lambda d: torch.cat([ones(3, device=d)], out=ones(2, device=d))),
    "sort": (
        2,
        lambda d: torch.sort(
            torch.tensor([3.0, 1, 2], device=d),
            out=(ones(2, device=d), ones(2, device=d).long()),
        ),
    ),
    "nonzero": (
        1,
        lambda d: torch.nonzero(ones(3, device=d), out=ones(2, device=d).long()),
    ),
    "arange": (1, lambda d: torch.arange(5, out=ones(2, device=d))),
    "empty output": (
        0,
        lambda d: torch.add(ones(3, device=d), 1, out=torch.empty(0, device=d)),
    ),
    "var": (1, lambda d: torch.var(ones(1, device=d))),
    "var into a wrong output": (
        2,
        lambda d: torch.var(ones(3, 1, device=d), 1, out=ones(2, device=d)),
    ),
    "lost imaginary part": (1, lambda d: complex_ones(d).float()),
    "copy of complex numbers": (1, lambda d: ones(3, device=d).copy_(complex_ones(d))),
    "bytes as a mask": (1, lambda d: torch.arange(3, device=d)[bytes_mask(d)]),
    "where": (1, lambda d: torch.where(bytes_mask(d), 1, 2)),
    "refused": (
        1,
        lambda d: ones(3, device=d).masked_scatter(bytes_mask(d), ones(3, device=d)),
    ),
    "cholesky": (1, lambda d: torch.cholesky(torch.eye(2, device=d))),
    "warned, then refused for its values": (
        1,
        lambda d: torch.cholesky(ones(2, 2, device=d)),
    ),
    "broadcast loss": (
        1,
        lambda d: functional.mse_loss(ones(3, 1, device=d), ones(3, device=d)),
    ),
    "complex half": (1, lambda d: torch.zeros(3, dtype=torch.chalf, device=d).shape),
    "complex half sum": (
        3,
        lambda d: (torch.zeros(3, dtype=torch.chalf, device=d) + 1).shape,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_warnings_are_the_cpus(name):
    count, program = PROGRAMS[name]
    assert len(assert_same_behaviour(program)["warnings"]) == count


def test_a_warning_comes_with_the_call_although_the_stream_is_busy(gate, watch):
    """What runs on the device's threads has nobody to warn."""
    x = ones(1, device=DEVICE)
    caught = []

    def call() -> None:
        with all_warnings(), warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            torch.var(x)
        caught.extend(str(warning.message) for warning in found)

    call()
    gate.hold()
    assert watch.returns(call)
    gate.open()
    assert len(caught) == 2
    assert all(text.startswith("var(): degrees of freedom") for text in caught)


def test_a_warning_in_a_backward_pass_reaches_the_program():
    def program(device):
        x = complex_ones(device).requires_grad_()
        y = ones(3, device=device).requires_grad_()
        (x * y).sum().abs().backward()
        return y.grad

    assert_same_behaviour(program)


def test_what_warns_once_in_a_process_does_so():
    """As it is without set_warn_always."""
    torch.set_warn_always(False)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.where(bytes_mask(DEVICE), 1, 2)
    assert len(found) <= 1
