"""A second call that differs in what is easily overlooked is right, or raises."""

import itertools
from collections.abc import Callable

import pytest
import torch
from compare import (
    DEVICE,
    assert_as_on_the_cpu,
    assert_refused_as_on_the_cpu,
    assert_same,
    failure_of,
    numbers,
)
from torch.nn import functional

Tensor = torch.Tensor


def floats(device: str, *shape: int) -> Tensor:
    return numbers(*(shape or (3, 4))).to(device)


# Values of numbers that decide sizes or dtypes


@pytest.mark.parametrize(
    "calls",
    [
        [
            lambda d, end=end: torch.arange(0.0, end, device=d)
            for end in (5.0, 7.0, 2.5)
        ],
        [lambda d, n=n: torch.arange(0.0, 1.0, n, device=d) for n in (0.1, 0.3, 0.5)],
        [lambda d, n=n: torch.arange(n, device=d) for n in (5, 5.0, 5.5, 7)],
        [lambda d, n=n: torch.linspace(0, n, 5, device=d) for n in (1.0, 2.0, -1.0)],
        [lambda d, n=n: torch.logspace(0, n, 5, device=d) for n in (1.0, 2.0)],
        [lambda d, n=n: torch.range(0.0, n, device=d) for n in (5.0, 7.0)],
        [lambda d, n=n: torch.full((3,), n, device=d) for n in (1, 1.0, True, 1j)],
        [lambda d, n=n: torch.full_like(floats(d), n) for n in (1.0, 2.0)],
        [lambda d, n=n: floats(d).new_full((2,), n) for n in (1.0, 2.0)],
        [lambda d, n=n: torch.scalar_tensor(n, device=d) for n in (1.0, 2.0)],
        [lambda d, n=n: torch.hann_window(n, device=d) for n in (4, 5)],
        [lambda d, n=n: torch.kaiser_window(5, True, n, device=d) for n in (1.0, 9.0)],
        [
            lambda d, n=n: functional.interpolate(floats(d, 1, 1, 4, 4), scale_factor=n)
            for n in (2.0, 1.5, 0.5)
        ],
        [lambda d, n=n: torch.quantile(floats(d), n) for n in (0.1, 0.9)],
        [lambda d, n=n: torch.histc(floats(d), 5, -n, n) for n in (1.0, 2.0)],
        [lambda d, n=n: floats(d) * n for n in (1.0, 2.0, float("nan"), -0.0)],
        [lambda d, n=n: floats(d).add(1, alpha=n) for n in (1, 2.5, -1)],
        [lambda d, n=n: torch.cumsum(floats(d), n) for n in (0, 1, -1)],
        [lambda d, n=n: floats(d).sum(n) for n in (0, 1, (0, 1))],
        [lambda d, n=n: floats(d).sum(1, keepdim=n) for n in (True, False)],
        [lambda d, n=n: torch.topk(floats(d), n) for n in (1, 3)],
        [lambda d, n=n: floats(d).repeat(n, 1) for n in (1, 2)],
        [lambda d, n=n: floats(d).norm(n) for n in (1, 2, 2.0, float("inf"))],
        [lambda d, n=n: floats(d).pow(n) for n in (2, 3.0, 0.5, 0)],
        [lambda d, n=n: torch.arange(4, device=d).pow(n) for n in (2, 3.0)],
        [lambda d, n=n: torch.triu(floats(d), n) for n in (0, 1, -1)],
        [lambda d, n=n: functional.pad(floats(d), (1, 1), value=n) for n in (0.0, 2.0)],
        [
            lambda d, n=n: torch.bucketize(
                floats(d), floats(d, 4).sort()[0], out_int32=n
            )
            for n in (True, False)
        ],
        [lambda d, n=n: torch.eye(n, device=d) for n in (2, 3)],
        [lambda d, n=n: torch.tril_indices(n, n, device=d) for n in (2, 3)],
        [lambda d, n=n: torch.zeros(3, dtype=n, device=d) for n in (torch.int, None)],
        [
            lambda d, n=n: torch.div(floats(d), 0.3, rounding_mode=n)
            for n in (None, "floor", "trunc")
        ],
        [
            lambda d, n=n: torch.nn.functional.one_hot(torch.arange(3, device=d), n)
            for n in (3, 5, -1)
        ],
        [lambda d, n=n: torch.vander(floats(d, 3), n) for n in (2, 4)],
        [lambda d, n=n: floats(d).to(n) for n in (torch.half, torch.double, torch.int)],
    ],
)
def test_other_numbers_give_other_results(calls):
    for call in [*calls, *reversed(calls)]:
        assert_as_on_the_cpu(call)


@pytest.mark.parametrize(
    "calls",
    [
        [
            lambda d, p=p: torch.empty(9, device=d).bernoulli_(p)
            for p in (0.5, 1.5, -1.0)
        ],
        [lambda d, p=p: functional.dropout(floats(d), p) for p in (0.5, 1.5, -0.1)],
        [lambda d, p=p: torch.empty(9, device=d).normal_(0, p) for p in (1.0, -1.0)],
        [lambda d, p=p: torch.empty(9, device=d).uniform_(0, p) for p in (1.0, -1.0)],
        [lambda d, p=p: torch.empty(9, device=d).exponential_(p) for p in (1.0, -1.0)],
        [
            lambda d, p=p: torch.empty(9, device=d).geometric_(p)
            for p in (0.5, 0.0, 1.5)
        ],
        [
            lambda d, p=p: torch.empty(9, device=d).log_normal_(0, p)
            for p in (1.0, -1.0)
        ],
        [lambda d, p=p: torch.empty(9, device=d).cauchy_(0, p) for p in (1.0, -1.0)],
        [lambda d, p=p: torch.empty(9, device=d).random_(p) for p in (5, 0)],
        [lambda d, p=p: torch.arange(0.0, 5.0, p, device=d) for p in (1.0, 0.0, -1.0)],
        [lambda d, p=p: torch.normal(0.0, p, (3,), device=d) for p in (1.0, -1.0)],
        [lambda d, p=p: torch.bernoulli(floats(d), p) for p in (0.5, 2.0)],
        [lambda d, p=p: functional.rrelu(floats(d), 0.1, p, True) for p in (0.3, 0.0)],
        [lambda d, p=p: torch.quantile(floats(d), p) for p in (0.5, 1.5)],
        [lambda d, p=p: torch.histc(floats(d), 5, 1, p) for p in (2.0, 0.5)],
        [
            lambda d, p=p: functional.huber_loss(floats(d), floats(d), delta=p)
            for p in (1.0, -1.0)
        ],
        [lambda d, p=p: floats(d).renorm(2, 0, p) for p in (1.0, -1.0)],
        [lambda d, p=p: torch.cdist(floats(d), floats(d), p) for p in (2.0, -1.0)],
    ],
)
def test_a_bad_number_after_a_good_one_raises_at_the_call(calls):
    """What the CPU refuses; the others give its numbers."""
    for call in [calls[0], *calls, *calls]:
        torch.manual_seed(3)
        try:
            expected = call("cpu")
        except Exception:
            error = assert_refused_as_on_the_cpu(call)
            assert not isinstance(error, torch.AcceleratorError)
        else:
            assert_same(call(DEVICE), expected)
    torch.openreg.synchronize()


def test_sizes_and_strides_and_dtypes_are_told_apart():
    for shape, dtype in itertools.product(
        [(3, 4), (4, 3), (12, 1), (1, 12)], [torch.float, torch.double, torch.int]
    ):
        assert_as_on_the_cpu(lambda d, s=shape, t=dtype: floats(d, *s).to(t) + 1)
        assert_as_on_the_cpu(lambda d, s=shape, t=dtype: floats(d, *s).to(t).T * 2)


def test_offsets_decide_where_tensors_share_memory():
    """The same sizes and strides: once no overlap, then a partial one."""
    x = torch.arange(10.0, device=DEVICE)
    x[:3].add_(x[5:8])
    assert x[:3].tolist() == [5.0, 7.0, 9.0]
    with pytest.raises(RuntimeError, match=r"overlap|single memory location"):
        x[:3].add_(x[1:4])
    x[:3].add_(x[:3])
    assert x[:3].tolist() == [10.0, 14.0, 18.0]


BAD: dict[str, tuple[Callable[[Tensor, float], object], float, float]] = {
    "bernoulli_": (lambda x, p: x.bernoulli_(p), 0.5, 1.5),
    "dropout": (lambda x, p: functional.dropout(x, p), 0.5, 1.5),
    "native_dropout": (lambda x, p: torch.native_dropout(x, p, True), 0.5, 1.5),
    "normal_": (lambda x, p: x.normal_(0, p), 1.0, -1.0),
    "uniform_": (lambda x, p: x.uniform_(0, p), 1.0, -1.0),
    "exponential_": (lambda x, p: x.exponential_(p), 1.0, -1.0),
    "geometric_": (lambda x, p: x.geometric_(p), 0.5, 1.5),
    "log_normal_": (lambda x, p: x.log_normal_(0, p), 1.0, -1.0),
    "cauchy_": (lambda x, p: x.cauchy_(0, p), 1.0, -1.0),
    "random_": (lambda x, p: x.random_(int(p)), 5, 0),
    "arange": (lambda x, p: torch.arange(0, 5.0, p, device=x.device), 1.0, -1.0),
    "normal": (lambda x, p: torch.normal(0.0, p, (3,), device=x.device), 1.0, -1.0),
    "multinomial": (lambda x, p: torch.multinomial(x, int(p)), 2, 200),
    "multinomial of none": (lambda x, p: torch.multinomial(x, int(p)), 2, 0),
    "randint": (lambda x, p: torch.randint(int(p), (3,), device=x.device), 2, 0),
    "renorm": (lambda x, p: x.view(3, 3).renorm(2, 0, p), 1.0, -1.0),
    "huber_loss": (lambda x, p: functional.huber_loss(x, x, delta=p), 1.0, -1.0),
    "histc": (lambda x, p: torch.histc(x, 5, 1, p), 2.0, 0.5),
    "cdist": (lambda x, p: torch.cdist(x.view(3, 3), x.view(3, 3), p), 2.0, -1.0),
    "topk": (lambda x, p: x.topk(int(p)), 2, 20),
    "diagonal": (lambda x, p: torch.diag_embed(x, int(p), 0, int(p)), 1, 0),
    "select": (lambda x, p: x.view(3, 3).select(0, int(p)), 1, 5),
    "unfold": (lambda x, p: x.unfold(0, int(p), 1), 2, 20),
    "avg_pool": (lambda x, p: functional.avg_pool1d(x[None], int(p)), 2, 0),
    "full": (lambda x, p: x.new_full((int(p),), 1.0), 2, -1),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_number_raises_at_the_call_behind_a_held_stream(gate, watch, name):
    call, good, bad = BAD[name]
    expected = failure_of(lambda: call(torch.ones(9), bad))
    x = torch.ones(9, device=DEVICE)
    call(x, good)
    errors: list[Exception] = []

    def work() -> None:
        call(x, good)
        errors.append(failure_of(lambda: call(x, bad)))

    gate.hold()
    returned = watch.returns(work)
    gate.open()
    watch.finish()
    assert type(errors[0]) is type(expected)
    assert returned


@pytest.mark.parametrize("operation", [torch._foreach_add, torch._foreach_mul])
def test_outputs_of_one_size_are_not_mixed_up(operation):
    """Temporaries of a conversion have their size too."""
    for dtypes in itertools.permutations([torch.bool, torch.int64, torch.float64]):
        for _ in range(3):
            assert_as_on_the_cpu(
                lambda d, types=dtypes: operation(
                    [
                        torch.tensor([index + 2, index], device=d).to(dtype)
                        for index, dtype in enumerate(types)
                    ],
                    3,
                )
            )


# Random numbers


def test_dropout_draws_from_the_device_and_gives_the_cpus_numbers():
    torch.manual_seed(11)
    cpu_state = torch.get_rng_state()
    ours = [functional.dropout(torch.ones(100, device=DEVICE), 0.3) for _ in range(3)]
    torch.openreg.synchronize()
    assert torch.equal(torch.get_rng_state(), cpu_state)
    theirs = [functional.dropout(torch.ones(100), 0.3) for _ in range(3)]
    assert not torch.equal(torch.get_rng_state(), cpu_state)
    assert_same(ours, theirs)


def test_random_operators_of_a_held_stream_draw_in_the_order_of_their_calls(gate):
    torch.manual_seed(5)
    gate.hold()
    ours = [torch.randn(3, device=DEVICE), torch.rand(4, device=DEVICE)]
    torch.openreg.manual_seed(6)
    ours.append(torch.randn(3, device=DEVICE))
    gate.open()
    theirs = [torch.randn(3), torch.rand(4)]
    torch.manual_seed(6)
    assert_same(ours, [*theirs, torch.randn(3)])
