"""``out=``, overlap, and results that share memory with arguments."""

from collections.abc import Callable

import pytest
import torch
from compare import (
    DEVICE,
    assert_as_on_the_cpu,
    assert_refused_as_on_the_cpu,
    numbers,
)
from torch.nn import functional

Tensor = torch.Tensor
Call = Callable[[str], object]


def floats(device: str, *shape: int) -> Tensor:
    return numbers(*(shape or (3, 4))).to(device)


# out=

INTO: dict[str, Callable[[str, Tensor], object]] = {
    "add": lambda d, out: torch.add(floats(d), 1, out=out),
    "matmul": lambda d, out: torch.matmul(floats(d), floats(d, 4, 4), out=out),
    "mm": lambda d, out: torch.mm(floats(d), floats(d, 4, 4), out=out),
    "softmax": lambda d, out: torch.softmax(floats(d), 1, out=out),
    "cat": lambda d, out: torch.cat([floats(d, 1, 4), floats(d, 2, 4)], out=out),
    "stack": lambda d, out: torch.stack(floats(d).unbind(), out=out),
    "index_select": lambda d, out: torch.index_select(
        floats(d), 0, torch.tensor([2, 0, 1], device=d), out=out
    ),
    "cumsum": lambda d, out: torch.cumsum(floats(d), 0, out=out),
    "where": lambda d, out: torch.where(floats(d) > 0, floats(d), -floats(d), out=out),
    "arange": lambda d, out: torch.arange(12.0, out=out.view(-1)).view(3, 4),
    "linspace": lambda d, out: torch.linspace(0, 1, 12, out=out.view(-1)).view(3, 4),
    "full": lambda d, out: torch.full((3, 4), 2.0, out=out),
    "clamp": lambda d, out: torch.clamp(floats(d), 0, out=out),
    "mean": lambda d, out: torch.mean(floats(d, 2, 3, 4), 0, out=out),
    "gather": lambda d, out: torch.gather(
        floats(d), 0, torch.zeros(3, 4, dtype=torch.long, device=d), out=out
    ),
}


@pytest.mark.parametrize("name", INTO)
def test_out_of_the_right_size_gets_the_result_and_is_it(name):
    def program(device: str) -> Tensor:
        out = torch.full((3, 4), 7.0, device=device)
        result = INTO[name](device, out)
        assert result.data_ptr() == out.data_ptr()
        return out

    assert_as_on_the_cpu(program)


@pytest.mark.parametrize("name", [n for n in INTO if n not in ("arange", "linspace")])
@pytest.mark.parametrize("strides", [(1, 3), (8, 2)])
def test_out_keeps_its_strides(name, strides):
    def program(device: str) -> tuple[Tensor, Tensor]:
        memory = torch.full((30,), 7.0, device=device)
        out = memory.as_strided((3, 4), strides)
        INTO[name](device, out)
        return out, memory

    assert_as_on_the_cpu(program)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", [n for n in INTO if n not in ("arange", "linspace")])
@pytest.mark.parametrize("size", [(0,), (2,), (5, 5)])
def test_out_of_another_size_is_resized(name, size):
    def program(device: str) -> Tensor:
        out = torch.full(size, 7.0, device=device)
        INTO[name](device, out)
        return out

    assert_as_on_the_cpu(program)
    assert_as_on_the_cpu(program)


def test_out_with_values_that_is_resized_warns_as_on_the_cpu():
    for device in ("cpu", DEVICE):
        with pytest.warns(UserWarning, match="An output with one or more elements was"):
            torch.add(floats(device), 1, out=torch.ones(2, device=device))


@pytest.mark.parametrize(
    "program",
    [
        lambda d: torch.max(floats(d), 1, out=(floats(d, 3), floats(d, 3).long())),
        lambda d: torch.sort(floats(d), out=(floats(d), floats(d).long())),
        lambda d: torch.topk(
            floats(d), 2, out=(torch.empty(0, device=d), floats(d, 0).long())
        ),
        lambda d: torch.nonzero(floats(d) > 0, out=torch.empty(0, device=d).long()),
        lambda d: torch.add(
            floats(d), 1, out=torch.empty(3, 4, dtype=torch.double, device=d)
        ),
        lambda d: torch.linalg.qr(
            floats(d, 3, 3), out=(torch.empty(0, device=d), torch.empty(0, device=d))
        ),
        lambda d: torch.masked_select(
            floats(d), floats(d) > 0, out=torch.empty(0, device=d)
        ),
    ],
    ids=["max", "sort", "topk", "nonzero", "wider", "qr", "masked_select"],
)
def test_several_outputs_and_other_dtypes(program):
    assert_as_on_the_cpu(program)


@pytest.mark.parametrize(
    "program",
    [
        lambda d: torch.add(floats(d), 1, out=floats(d).long()),
        lambda d: torch.mm(floats(d), floats(d, 4, 4), out=floats(d).double()),
        lambda d: torch.softmax(floats(d), 1, out=floats(d).half()),
        lambda d: torch.max(floats(d), 1, out=(floats(d, 3), floats(d, 3))),
        lambda d: torch.arange(5, out=floats(d).bool()),
        lambda d: torch.add(floats(d), 1j, out=floats(d)),
        lambda d: torch.eq(floats(d), 1, out=torch.empty(1, device=d).expand(3, 4)),
        lambda d: torch.add(floats(d), 1, out=torch.ones(1, device=d).expand(3, 4)),
        lambda d: torch.mm(floats(d), floats(d, 4, 4), out=floats(d, 1).expand(3, 4)),
    ],
)
def test_out_that_does_not_fit_is_refused_as_on_the_cpu(program):
    assert_refused_as_on_the_cpu(program)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.add(x[:-1], 1, out=x[1:]),
        lambda x: torch.mul(x[:-1], x[1:], out=x[:-1]),
        lambda x: x[1:].add_(x[:-1]),
        lambda x: torch.cat([x[:2], x[2:4]], out=x[1:5]),
        lambda x: torch.cumsum(x[:-1], 0, out=x[1:]),
        lambda x: torch.gather(x, 0, torch.zeros_like(x).long(), out=x),
        lambda x: x.expand(3, 10).add_(1),
        lambda x: x[:1].expand(4).scatter_(0, x[:2].long() * 0, 1.0),
        lambda x: x[:1].expand(4).copy_(x[4:8]),
        lambda x: x[1:4].copy_(x[:3]),
        lambda x: x.copy_(x[2]),
        lambda x: x[:1].view(1, 1).copy_(x[:1]),
        lambda x: x[:1].expand(4).normal_(),
        lambda x: torch.exp(x[:9].view(3, 3), out=x[:9].view(3, 3).t()),
        lambda x: (
            x[:9].view(3, 3).index_copy_(0, x[:3].long() * 0, x[:9].view(3, 3).t())
        ),
    ],
)
def test_overlap_is_refused_as_on_the_cpu_and_changes_nothing(program):
    x = torch.arange(10.0, device=DEVICE)
    error = assert_refused_as_on_the_cpu(
        lambda device: program(x if device == DEVICE else torch.arange(10.0))
    )
    assert not isinstance(error, torch.AcceleratorError)
    assert x.tolist() == list(range(10))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.add_(x),
        lambda x: torch.add(x, x, out=x),
        lambda x: torch.exp(x, out=x),
        lambda x: x[:5].add_(x[5:]),
        lambda x: x[::2].mul_(x[1::2]),
        lambda x: torch.cat([x[:2], x[2:4]], out=x[6:]),
    ],
)
def test_full_or_no_overlap_is_no_overlap(program):
    assert_as_on_the_cpu(lambda d: (x := torch.arange(10.0, device=d), program(x)))


# Results that are views or the arguments themselves


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.contiguous(),
        lambda x: x.to(torch.float32),
        lambda x: x.reshape(-1),
        lambda x: x.expand_as(x),
        lambda x: x.float(),
        lambda x: functional.dropout(x, 0.5, training=False),
        lambda x: x.resolve_conj(),
        lambda x: torch.atleast_3d(x),
        lambda x: x.real,
        lambda x: torch.flatten(x),
        lambda x: x.requires_grad_(),
        lambda x: x.chunk(2)[0],
        lambda x: torch.broadcast_tensors(x)[0],
        lambda x: x.view_as(x),
        lambda x: torch.narrow(x, 0, 0, 1),
        lambda x: x.type_as(x),
        lambda x: torch.movedim(x, 0, 1),
    ],
)
def test_results_share_memory_where_the_cpus_do(call):
    for device in ("cpu", DEVICE):
        x = floats(device)
        result = call(x)
        assert result.data_ptr() == x.data_ptr()
        assert result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
