"""Writes to memory that overlaps are refused, or done, as on the CPU."""

import pytest
import torch
from observe import assert_same_behaviour

FIRST = [0]
INTERNAL = {
    "add_": lambda x: x.add_(1),
    "copy_": lambda x: x.copy_(torch.ones(3)),
    "fill_": lambda x: x.fill_(1),
    "uniform_": lambda x: x.uniform_(),
    "abs_": lambda x: x.abs_(),
    "clamp_": lambda x: x.clamp_(0, 1),
    "cumsum_": lambda x: x.cumsum_(0),
    "setitem": lambda x: x.__setitem__(0, 1.0),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 1.0),
    "index_add_": lambda x: x.index_add_(0, index(x), x[:1].clone()),
    "index_copy_": lambda x: x.index_copy_(0, index(x), x[:1].clone()),
    "index_put_": lambda x: x.index_put_((index(x),), x[:1].clone()),
    "scatter_": lambda x: x.scatter_(0, index(x), x[:1].clone()),
    "put_": lambda x: x.put_(index(x), x[:1].clone()),
    "out": lambda x: torch.add(torch.ones_like(x), 1, out=x),
    "mm": lambda x: torch.mm(
        torch.ones(3, 3, device=x.device),
        torch.ones(3, 3, device=x.device),
        out=x.expand(3, 3),
    ),
    "cat": lambda x: torch.cat([torch.ones_like(x)], out=x),
    "foreach": lambda x: torch._foreach_add_([x], 1),
}
PARTIAL = {
    "add_": lambda a: a[1:].add_(a[:-1]),
    "copy_": lambda a: a[1:].copy_(a[:-1]),
    "transposed": lambda a: a[:4].view(2, 2).add_(a[:4].view(2, 2).t()),
    "out": lambda a: torch.mul(a[:-1], 2, out=a[1:]),
    "cat": lambda a: torch.cat([a[:2], a[2:4]], out=a[1:5]),
    "gather": lambda a: torch.gather(a[:3], 0, index(a), out=a[1:2]),
    "index_add_": lambda a: a[:3].index_add_(0, index(a), a[2:3]),
    "scatter_": lambda a: a[:3].scatter_(0, index(a), a[2:3]),
    "mm": lambda a: torch.mm(square(a), square(a), out=a[2:6].view(2, 2)),
    "masked_fill_": lambda a: a[1:].masked_fill_(a[:-1] > 2, a[0]),
    "setitem": lambda a: a.__setitem__(slice(1, None), a[:-1]),
    "cumsum": lambda a: torch.cumsum(a, 0, out=a),
    "neg": lambda a: torch.neg(square(a), out=square(a).t()),
    "foreach": lambda a: torch._foreach_add_([a[1:]], [a[:-1]]),
}
# Those that read all before they write, or in an order that does no harm.
DONE = ("cumsum", "masked_fill_", "mm")


def index(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(FIRST, device=x.device)


def square(x: torch.Tensor) -> torch.Tensor:
    return x[:4].view(2, 2)


@pytest.mark.parametrize("name", INTERNAL)
def test_a_tensor_that_overlaps_itself_is_written_as_on_the_cpu(name):
    def program(device):
        x = torch.ones(1, device=device).expand(3)
        INTERNAL[name](x)
        return x

    assert_same_behaviour(program)


@pytest.mark.parametrize("name", PARTIAL)
def test_tensors_that_overlap_each_other_are_used_as_on_the_cpu(name):
    def program(device):
        x = torch.arange(6.0, device=device)
        PARTIAL[name](x)
        return x

    seen = assert_same_behaviour(program)
    assert ("error" in seen) == (name not in DONE)
