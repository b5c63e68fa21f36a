"""Numbers, single values of the host and dtypes mix as on the CPU."""

import itertools
from collections.abc import Callable

import pytest
import torch
from compare import (
    DEVICE,
    assert_as_on_the_cpu,
    assert_refused_as_on_the_cpu,
    assert_same,
    numbers,
)

Tensor = torch.Tensor
DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
)
NUMBERS = (True, 2, 1.5, 1 + 2j)


def values(dtype: torch.dtype) -> Tensor:
    return torch.tensor([0, 1, 2, 3]).to(dtype)


def outcome(program: Callable[[], object]) -> object:
    """What ``program`` gives, or the type that it raises."""
    try:
        return program()
    except Exception as error:
        return type(error)


def assert_same_outcome(program: Callable[[str], object]) -> None:
    """Both give the same or raise the same type."""
    expected = outcome(lambda: program("cpu"))
    found = outcome(lambda: program(DEVICE))
    if isinstance(expected, type):
        assert found == expected
    else:
        assert_same(found, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tensor_and_a_number(dtype):
    for number in NUMBERS:
        assert_same_outcome(lambda d, n=number: values(dtype).to(d) + n)
        assert_same_outcome(lambda d, n=number: n * values(dtype).to(d))
        assert_same_outcome(lambda d, n=number: values(dtype).to(d).mul_(n))
        assert_same_outcome(lambda d, n=number: values(dtype).to(d) == n)
        assert_same_outcome(lambda d, n=number: values(dtype).to(d) / n)
        assert_same_outcome(lambda d, n=number: torch.rsub(values(dtype).to(d), n))


@pytest.mark.parametrize("operation", [torch.add, torch.mul, torch.div, torch.eq])
def test_two_tensors_of_all_dtypes(operation):
    for one, other in itertools.product(DTYPES, DTYPES):
        assert_same_outcome(
            lambda d, a=one, b=other: operation(values(a).to(d), values(b).to(d))
        )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_single_value_of_the_host_counts_as_on_the_cpu(dtype):
    """It is promoted as a tensor without dimensions, not as a number."""
    for other in DTYPES:
        host = torch.tensor(1).to(other)
        assert_same_outcome(lambda d, h=host: values(dtype).to(d) + h)
        assert_same_outcome(lambda d, h=host: h * values(dtype).to(d))
        assert_same_outcome(lambda d, h=host: values(dtype).to(d)[1] + h)
        assert_same_outcome(lambda d, h=host: values(dtype).to(d).add_(h))


def test_a_single_value_of_the_device_is_no_single_value_of_the_host():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3) + torch.tensor(1.0, device=DEVICE)


@pytest.mark.parametrize(
    "program",
    [
        lambda d: numbers(4).to(d) + torch.tensor(2.0).conj(),
        lambda d: numbers(4).to(d) * torch.tensor(1 + 2j).conj(),
        lambda d: numbers(4).to(d) * torch.tensor(1.0)._neg_view(),
        lambda d: torch.where(numbers(4).to(d) > 0, 1.0, torch.tensor(2)),
        lambda d: torch.where(numbers(4).to(d) > 0, torch.tensor(1.0), -1),
        lambda d: torch.lerp(numbers(4).to(d), numbers(4).to(d).neg(), 0.3),
        lambda d: numbers(4).to(d).masked_fill(numbers(4).to(d) > 0, torch.tensor(7)),
        lambda d: numbers(4).to(d).fill_(torch.tensor(7)),
        lambda d: (
            numbers(4)
            .to(d)
            .index_fill(0, torch.tensor([1], device=d), torch.tensor(7.0))
        ),
        lambda d: torch.addcmul(
            numbers(4).to(d), numbers(4).to(d), numbers(4).to(d), value=2
        ),
        lambda d: torch.pow(2.0, numbers(4).to(d)),
        lambda d: torch.pow(numbers(4).to(d), 3),
        lambda d: numbers(4).to(d) % 0.3,
        lambda d: torch.arange(5, device=d) // 2,
        lambda d: torch.arange(5, device=d) ** 2,
        lambda d: torch.arange(5, device=d) ** 0.5,
        lambda d: torch.arange(5, dtype=torch.uint8, device=d) - 300,
        lambda d: 1 - torch.arange(5, device=d),
        lambda d: torch.cumsum(torch.tensor([True, True], device=d), 0),
        lambda d: torch.arange(5, device=d).sum(),
        lambda d: torch.mean(torch.arange(5, device=d), dtype=torch.float64),
        lambda d: torch.full((3,), 2, device=d) / torch.full((3,), 4, device=d),
        lambda d: torch.bitwise_left_shift(torch.arange(3, device=d), 2),
        lambda d: torch.outer(torch.arange(3, device=d), numbers(2).to(d)),
    ],
)
def test_mixed_arguments_give_the_cpus(program):
    assert_as_on_the_cpu(program)


def test_a_call_with_a_number_and_one_with_a_value_are_kept_apart():
    """Their results have other dtypes, though all else is the same."""
    x = torch.arange(3, device=DEVICE)
    for _ in range(2):
        assert (x + 2).dtype == torch.int64
        assert (x + 2.0).dtype == torch.float32
        assert (x + torch.tensor(2.0)).dtype == torch.float32
        assert (x + torch.tensor(2.0, dtype=torch.float64)).dtype == torch.float64
        assert (x[0] + torch.tensor(2.0, dtype=torch.float64)).dtype == torch.float64
        assert (x.int() + torch.tensor(2)).dtype == torch.int32
        assert (x.int() + torch.tensor([2], device=DEVICE)).dtype == torch.int64


def test_a_value_of_the_host_is_read_at_the_call(gate):
    """What happens to it afterwards does not matter."""
    x = torch.ones(3, device=DEVICE)
    value = torch.tensor(2.0)
    gate.hold()
    y = x * value
    value.fill_(100.0)
    gate.open()
    assert y.tolist() == [2.0] * 3


@pytest.mark.parametrize(
    "program",
    [
        lambda d: torch.arange(3, device=d).add_(1.5),
        lambda d: torch.arange(3, device=d).div_(2),
        lambda d: torch.ones(3, device=d).mul_(1j),
        lambda d: torch.ones(3, dtype=torch.bool, device=d) - True,
        lambda d: torch.ones(3, dtype=torch.bool, device=d).neg(),
        lambda d: torch.ones(3, device=d) << 1.5j,
        lambda d: torch.ones(3, device=d) & torch.ones(3, device=d),
        lambda d: torch.mean(torch.arange(3, device=d)),
        lambda d: torch.ones(2, 2, device=d) @ torch.ones(2, 2, device=d).long(),
        lambda d: torch.ones(2, 2, dtype=torch.complex64, device=d) > 0,
        lambda d: torch.nn.functional.softmax(torch.arange(3, device=d), 0),
        lambda d: torch.gather(
            torch.ones(3, device=d),
            0,
            torch.zeros(1, dtype=torch.int32, device=d).half(),
        ),
        lambda d: torch.ones(3, device=d)[torch.ones(1, device=d)],
        lambda d: torch.where(torch.ones(3, device=d), 1.0, 2.0),
    ],
)
def test_dtypes_that_do_not_fit_are_refused(program):
    error = assert_refused_as_on_the_cpu(program)
    assert not isinstance(error, torch.AcceleratorError)
