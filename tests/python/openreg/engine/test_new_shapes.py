"""Operators whose tensors have other sizes and strides from call to call."""

import random
from collections.abc import Callable

import pytest
import torch
from compare import DEVICE, assert_same, numbers
from torch.nn import functional

Tensor = torch.Tensor
# More than the device needs to know a call by heart, in part one after the other.
CALLS = 120


def rows(device: str, n: int, m: int) -> Tensor:
    """Numbers that are the same on every device."""
    return numbers(n, m).to(device)


def overwritten(x: Tensor) -> Tensor:
    """Change a view and give what it is a view of."""
    x[1:].mul_(2.5)
    return x


OPERATORS: dict[str, Callable[[str, int, int], object]] = {
    "one output": lambda d, n, m: rows(d, n, m) * 2 + rows(d, n, m),
    "broadcast": lambda d, n, m: rows(d, n, m) + rows(d, 1, m) * rows(d, n, 1),
    "strides": lambda d, n, m: rows(d, m, n).t() + rows(d, n, m),
    "offsets": lambda d, n, m: rows(d, n + 2, m + 1)[1:, 1:] - rows(d, n + 1, m),
    "the same tensor twice": lambda d, n, m: (lambda x: x * x)(rows(d, n, m)),
    "in place": lambda d, n, m: overwritten(rows(d, n + 1, m)),
    "lists": lambda d, n, m: torch.cat([rows(d, n, m), rows(d, m, m)]),
    "lists of lists": lambda d, n, m: torch._foreach_add(
        [rows(d, n, m), rows(d, m, m)], [rows(d, n, m), rows(d, m, m)]
    ),
    "several outputs": lambda d, n, m: torch.max(rows(d, n, m), 0),
    "a list of numbers": lambda d, n, m: functional.layer_norm(rows(d, n, m), (m,)),
    "three outputs": lambda d, n, m: torch.native_layer_norm(
        rows(d, n, 8), (8,), None, None, 1e-5
    ),
    "a product": lambda d, n, m: rows(d, n, m) @ rows(d, m, n),
    "text": lambda d, n, m: functional.gelu(rows(d, n, m), approximate="tanh"),
    "attention": lambda d, n, m: functional.scaled_dot_product_attention(
        rows(d, n, 8)[None], rows(d, m, 8)[None], rows(d, m, 8)[None]
    ),
    "an optional tensor": lambda d, n, m: functional.linear(
        rows(d, n, m), rows(d, n, m), None if m % 2 else rows(d, 1, n)[0]
    ),
    "a number of the host": lambda d, n, m: torch.where(
        rows(d, n, m) > 0, rows(d, n, m), torch.tensor(float(n))
    ),
    "no elements": lambda d, n, m: rows(d, n, m)[:, : m // 2 - 1] + 1,
    "channels last": lambda d, n, m: functional.avg_pool2d(
        rows(d, n * 4, m * 4)
        .view(1, n, 4, m * 4)
        .contiguous(memory_format=torch.channels_last),
        2,
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_results_are_the_cpus_whatever_came_before(name: str) -> None:
    shapes = [(n, m) for n in (2, 3, 5) for m in (2, 3, 8)]
    order = random.Random(0)
    for _ in range(CALLS // 3):
        shape = order.choice(shapes)
        for _ in range(order.choice((1, 1, 1, 2, 8))):
            wanted = OPERATORS[name]("cpu", *shape)
            assert_same(OPERATORS[name](DEVICE, *shape), wanted)


def test_results_of_a_shape_that_comes_all_the_time_and_of_others_between() -> None:
    for i in range(CALLS):
        n = 4 if i % 2 else 4 + i
        x = numbers(n, 3)
        assert_same(x.to(DEVICE).exp(), x.exp())
        assert_same(torch.cat([x.to(DEVICE)] * 2, 1), torch.cat([x] * 2, 1))


def test_a_call_that_is_refused_leaves_the_next_ones_alone() -> None:
    for n in range(2, 30):
        x = numbers(n, 3)
        with pytest.raises(RuntimeError, match="must match the size"):
            x.to(DEVICE) + numbers(n + 1, 3).to(DEVICE)
        assert_same(x.to(DEVICE) + x.to(DEVICE), x + x)


def test_results_stay_as_they_are_when_calls_of_other_shapes_follow() -> None:
    kept = [(numbers(n, 4).to(DEVICE).sin(), numbers(n, 4).sin()) for n in range(1, 40)]
    for given, wanted in kept:
        assert_same(given, wanted)
