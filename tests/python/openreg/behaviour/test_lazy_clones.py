"""Lazy clones share memory until somebody writes, and reading is not writing."""

from collections.abc import Callable

import pytest
import torch
from observe import assert_same_behaviour


def facts(x: torch.Tensor, y: torch.Tensor) -> tuple[object, ...]:
    """Whether each is still lazy, whether they share memory, and what they hold."""
    return (
        torch._C._is_cow_tensor(x),
        torch._C._is_cow_tensor(y),
        torch._C._data_address(x) == torch._C._data_address(y),
        x,
        y,
    )


def after(use: Callable[[torch.Tensor, torch.Tensor], object]) -> object:
    """What is true after ``use`` of a tensor and its lazy clone."""

    def program(device: str) -> object:
        x = torch.tensor([-1.0, 2.0], device=device)
        y = torch._lazy_clone(x)
        use(x, y)
        return facts(x, y)

    return assert_same_behaviour(program)["result"]


READS = {
    "nothing": lambda x, y: None,
    "add": lambda x, y: y + 1,
    "matmul": lambda x, y: y @ y,
    "abs": lambda x, y: y.abs(),
    "sum": lambda x, y: y.sum().item(),
    "tolist": lambda x, y: y.tolist(),
    "repr": lambda x, y: repr(y),
    "clone": lambda x, y: y.clone(),
    "view": lambda x, y: y.view(-1)[0:1] + 1,
    "source of a copy": lambda x, y: torch.zeros_like(x).copy_(y),
    "index": lambda x, y: y[torch.tensor([0], device=y.device)],
    "list": lambda x, y: torch._foreach_add([y], 1),
}
WRITES = {
    "add_": lambda x, y: y.add_(1),
    "abs_": lambda x, y: y.abs_(),
    "add_ of the first": lambda x, y: x.add_(1),
    "copy_": lambda x, y: y.copy_(torch.zeros(2)),
    "fill_": lambda x, y: y.fill_(3),
    "uniform_": lambda x, y: y.uniform_(),
    "out": lambda x, y: torch.add(x, 1, out=y),
    "view": lambda x, y: y[0:1].mul_(2),
    "setitem": lambda x, y: y.__setitem__(0, 5.0),
    "index_put_": lambda x, y: y.index_put_(
        (torch.tensor([0], device=y.device),), torch.ones(1, device=y.device)
    ),
    "list": lambda x, y: torch._foreach_add_([y], 1),
}


@pytest.mark.parametrize("name", READS)
def test_who_reads_leaves_it_lazy(name):
    result = after(READS[name])
    assert result[:3] == [True, True, True]


@pytest.mark.parametrize("name", WRITES)
def test_who_writes_gets_memory_of_its_own(name):
    result = after(WRITES[name])
    assert result[2] is False


def test_a_gradient_goes_through_it():
    def program(device):
        x = torch.ones(2, device=device, requires_grad=True)
        (torch._lazy_clone(x) * 3).sum().backward()
        return x.grad

    assert_same_behaviour(program)
