"""Deterministic mode fills new memory and refuses operators, as on the CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from observe import Program, assert_same_behaviour
from torch.nn import functional

DTYPES = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.half,
    torch.bfloat16,
    torch.float,
    torch.double,
    torch.cfloat,
    torch.cdouble,
    torch.bool,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)


@contextmanager
def deterministic(warn_only: bool = False) -> Iterator[None]:
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def bits(x: torch.Tensor) -> list[int]:
    return x.untyped_storage().tolist()


NEW = {
    "empty": lambda **o: torch.empty(3, 2, **o),
    "empty into a smaller one": lambda **o: torch.empty(3, out=torch.zeros(1, **o)),
    "empty_like": lambda **o: torch.empty_like(torch.zeros(3, **o)),
    "empty_strided": lambda **o: torch.empty_strided((2, 3), (1, 2), **o),
    "empty_permuted": lambda **o: torch.empty_permuted((2, 3), (1, 0), **o),
    "new_empty": lambda **o: torch.zeros(1, **o).new_empty(3),
    "resize_": lambda **o: torch.zeros(3, **o).resize_(7),
    "resize_ of an expanded one": lambda **o: (
        torch.empty_strided((2, 3, 4), (1, 0, 1), **o).fill_(0).resize_(2, 4, 5)
    ),
    "resize_as_": lambda **o: torch.zeros(3, **o).resize_as_(torch.zeros(2, 3, **o)),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NEW)
@pytest.mark.filterwarnings("ignore:An output with one or more elements")
def test_new_memory_has_the_cpus_bits(name, dtype):
    def program(device):
        with deterministic(), torch.openreg.strict():
            return bits(NEW[name](dtype=dtype, device=device))

    assert_same_behaviour(program)


def backward(call: Program, *shape: int) -> Program:
    """The gradient of what ``call`` gives for ones of that shape."""

    def program(device: str) -> object:
        x = torch.ones(shape, device=device, requires_grad=True)
        call(x).sum().backward()
        return x.grad

    return program


def zeros(*shape: int, device: str) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.long, device=device)


OPERATORS = {
    "put_": lambda d: torch.ones(3, device=d).put_(
        zeros(1, device=d), torch.ones(1, device=d)
    ),
    "put_ that adds": lambda d: torch.ones(3, device=d).put_(
        zeros(2, device=d), torch.ones(2, device=d), accumulate=True
    ),
    "max_unpool2d": lambda d: functional.max_unpool2d(
        torch.ones(1, 1, 1, 1, device=d), zeros(1, 1, 1, 1, device=d), 2
    ),
    "kthvalue": lambda d: torch.arange(3.0, device=d).kthvalue(2),
    "median": lambda d: torch.arange(3.0, device=d).median(0),
    "histc": lambda d: torch.histc(torch.ones(3, device=d), 2),
    "bincount": lambda d: torch.bincount(
        zeros(3, device=d), weights=torch.ones(3, device=d)
    ),
    "index_add_": lambda d: torch.ones(3, device=d).index_add_(
        0, zeros(2, device=d), torch.ones(2, device=d)
    ),
    "scatter_add_": lambda d: torch.ones(3, device=d).scatter_add_(
        0, zeros(2, device=d), torch.ones(2, device=d)
    ),
    "index_put_": lambda d: torch.ones(3, device=d).index_put_(
        (zeros(2, device=d),), torch.ones(2, device=d), accumulate=True
    ),
    "gather": backward(lambda x: x.gather(0, zeros(2, device=x.device)), 3),
    "take": backward(lambda x: x.take(zeros(2, device=x.device)), 3),
    "interpolate": backward(
        lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"), 1, 1, 2, 2
    ),
    "adaptive pooling": backward(
        lambda x: functional.adaptive_avg_pool2d(x, 1), 1, 1, 2, 2
    ),
    "padding": backward(
        lambda x: functional.pad(x, (1, 1, 1, 1), mode="replicate"), 1, 1, 2, 2
    ),
    "repeat_interleave": backward(lambda x: x.repeat_interleave(2), 3),
}
REFUSED = ("put_", "max_unpool2d")


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_refused_where_the_cpus_are(name):
    def program(device):
        with deterministic():
            return OPERATORS[name](device)

    assert ("error" in assert_same_behaviour(program)) == (name in REFUSED)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_warn_where_the_cpus_do(name):
    def program(device):
        with deterministic(warn_only=True):
            return OPERATORS[name](device)

    assert len(assert_same_behaviour(program)["warnings"]) == (name in REFUSED)
