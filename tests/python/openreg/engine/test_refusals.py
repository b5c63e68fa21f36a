"""Calls that are refused raise what the CPU or CUDA raises, and change nothing."""

from collections.abc import Callable

import pytest
import torch
from compare import (
    DEVICE,
    assert_as_on_the_cpu,
    assert_refused_as_on_the_cpu,
    failure_of,
    numbers,
)
from torch.nn import functional

Tensor = torch.Tensor


def floats(device: str, *shape: int) -> Tensor:
    return numbers(*(shape or (3, 4))).to(device)


# Wrong shapes, dtypes and values: at the call, as on the CPU

WRONG: dict[str, Callable[[str], object]] = {
    "add": lambda d: floats(d) + floats(d, 3),
    "add in place": lambda d: floats(d, 4).add_(floats(d, 3, 4)),
    "matmul": lambda d: floats(d) @ floats(d),
    "matmul of one": lambda d: floats(d) @ floats(d, 5),
    "bmm": lambda d: torch.bmm(floats(d), floats(d)),
    "mm of two dtypes": lambda d: floats(d) @ floats(d, 4, 2).double(),
    "mm of float and long": lambda d: floats(d) @ floats(d, 4, 2).long(),
    "linear": lambda d: functional.linear(floats(d), floats(d, 2, 5)),
    "conv2d": lambda d: functional.conv2d(floats(d, 1, 2, 5, 5), floats(d, 3, 3, 3, 3)),
    "conv2d too large": lambda d: functional.conv2d(
        floats(d, 1, 2, 2, 2), floats(d, 3, 2, 3, 3)
    ),
    "conv2d bias": lambda d: functional.conv2d(
        floats(d, 1, 2, 5, 5), floats(d, 3, 2, 3, 3), floats(d, 4)
    ),
    "conv2d of long": lambda d: functional.conv2d(
        floats(d, 1, 2, 5, 5).long(), floats(d, 3, 2, 3, 3)
    ),
    "cat": lambda d: torch.cat([floats(d), floats(d, 3, 3)]),
    "cat of nothing": lambda d: torch.cat([]),
    "stack": lambda d: torch.stack([floats(d), floats(d, 3, 3)]),
    "view": lambda d: floats(d).view(5),
    "reshape": lambda d: floats(d).reshape(5, 5),
    "expand": lambda d: floats(d).expand(2, 4),
    "softmax of no dimension": lambda d: functional.softmax(floats(d), 2),
    "sum of no dimension": lambda d: floats(d).sum(5),
    "transpose": lambda d: floats(d).transpose(0, 2),
    "select": lambda d: floats(d)[3],
    "index of too many": lambda d: floats(d)[0, 0, 0],
    "gather dtype": lambda d: floats(d).gather(0, floats(d)),
    "gather shape": lambda d: floats(d).gather(0, floats(d, 3).long()),
    "index_select dtype": lambda d: floats(d).index_select(0, floats(d, 2)),
    "embedding dtype": lambda d: functional.embedding(floats(d, 2), floats(d)),
    "layer_norm": lambda d: functional.layer_norm(floats(d), (3,)),
    "layer_norm weight": lambda d: functional.layer_norm(floats(d), (4,), floats(d, 3)),
    "group_norm": lambda d: functional.group_norm(floats(d, 2, 3), 2),
    "batch_norm": lambda d: functional.batch_norm(
        floats(d, 2, 3), floats(d, 4), floats(d, 4)
    ),
    "max_pool2d": lambda d: functional.max_pool2d(floats(d, 1, 1, 2, 2), 3),
    "cross_entropy": lambda d: functional.cross_entropy(floats(d), floats(d, 2).long()),
    "nll_loss dtype": lambda d: functional.nll_loss(floats(d), floats(d, 3).int()),
    "mse_loss": lambda d: torch._C._nn.mse_loss(floats(d), floats(d, 5)),
    "item of many": lambda d: floats(d).item(),
    "bool of many": lambda d: bool(floats(d)),
    "topk": lambda d: floats(d).topk(9),
    "split": lambda d: floats(d).split([1, 1]),
    "arange": lambda d: torch.arange(0, 5, -1, device=d),
    "arange by 0": lambda d: torch.arange(0, 5, 0, device=d),
    "linspace": lambda d: torch.linspace(0, 1, -1, device=d),
    "full of negative": lambda d: torch.full((-1,), 1.0, device=d),
    "einsum": lambda d: torch.einsum("ij,jk->ik", floats(d), floats(d)),
    "cholesky": lambda d: torch.linalg.cholesky(-torch.eye(3, device=d)),
    "inverse": lambda d: torch.linalg.inv(torch.zeros(3, 3, device=d)),
    "inverse of no square": lambda d: torch.linalg.inv(floats(d)),
    "norm of long": lambda d: floats(d).long().norm(),
    "bincount": lambda d: torch.bincount(torch.tensor([-1], device=d)),
    "dropout": lambda d: functional.dropout(floats(d), 1.5),
    "clamp": lambda d: floats(d).clamp(),
    "where": lambda d: torch.where(floats(d) > 0, floats(d), floats(d, 5)),
    "masked_fill": lambda d: floats(d).masked_fill(floats(d), 1.0),
    "scatter": lambda d: floats(d).scatter(0, floats(d).long(), floats(d).double()),
    "index_put": lambda d: floats(d).index_put(
        (torch.tensor([0, 1], device=d),), floats(d, 3, 4)
    ),
    "index_copy": lambda d: floats(d).index_copy(
        0, torch.tensor([0], device=d), floats(d)
    ),
    "foreach of two lengths": lambda d: torch._foreach_add([floats(d)], [1.0, 2.0]),
    "foreach of shapes": lambda d: torch._foreach_add([floats(d)], [floats(d, 5)]),
    "attention": lambda d: functional.scaled_dot_product_attention(
        floats(d, 1, 2, 3, 4), floats(d, 1, 2, 3, 5), floats(d, 1, 2, 3, 5)
    ),
    "lstm": lambda d: torch.nn.LSTM(3, 4).to(d)(floats(d, 2, 1, 5)),
    "ctc": lambda d: torch.nn.functional.pdist(floats(d, 3)),
    "cdist": lambda d: torch.cdist(floats(d), floats(d, 3, 5)),
    "unfold": lambda d: floats(d).unfold(0, 9, 1),
    "roll": lambda d: floats(d).roll((1, 2), 0),
    "repeat": lambda d: floats(d).repeat(2),
    "prelu": lambda d: functional.prelu(floats(d), floats(d, 3)),
    "bitwise_and": lambda d: floats(d) & 1,
    "fft": lambda d: torch.fft.fft(floats(d), n=0),
    "multinomial": lambda d: torch.multinomial(floats(d).abs(), 9),
    "normal": lambda d: floats(d).normal_(0, -1),
    "uniform": lambda d: floats(d).uniform_(2, 1),
    "bernoulli": lambda d: floats(d).bernoulli_(1.5),
    "exponential": lambda d: floats(d).exponential_(-1),
    "geometric": lambda d: floats(d).geometric_(2),
    "random": lambda d: floats(d).random_(5, 3),
    "randint": lambda d: torch.randint(5, 5, (2,), device=d),
    "randperm": lambda d: torch.randperm(-1, device=d),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_raise_at_the_call_what_the_cpu_raises(name):
    error = assert_refused_as_on_the_cpu(WRONG[name])
    assert not isinstance(error, torch.AcceleratorError)
    assert "meta" not in str(error).lower()
    torch.openreg.synchronize()


# Without waiting: a call, and the sizes of its arguments.
AT_ONCE: dict[str, tuple[Callable[..., object], list[tuple[int, ...]]]] = {
    "add": (torch.add, [(3, 4), (3,)]),
    "add in place": (Tensor.add_, [(4,), (3, 4)]),
    "matmul": (torch.matmul, [(3, 4), (3, 4)]),
    "mm of two dtypes": (lambda x, y: x @ y.double(), [(3, 4), (4, 2)]),
    "mm of float and long": (lambda x, y: x @ y.long(), [(3, 4), (4, 2)]),
    "bmm of two dtypes": (lambda x, y: x @ y.double(), [(1, 3, 4), (1, 4, 2)]),
    "linear of two dtypes": (
        lambda x, y: functional.linear(x, y.double()),
        [(3, 4), (2, 4)],
    ),
    "conv2d": (functional.conv2d, [(1, 2, 5, 5), (3, 3, 3, 3)]),
    "conv2d of two dtypes": (
        lambda x, y: functional.conv2d(x, y.double()),
        [(1, 2, 5, 5), (3, 2, 3, 3)],
    ),
    "cat": (lambda x, y: torch.cat([x, y]), [(3, 4), (3, 3)]),
    "layer_norm": (lambda x: functional.layer_norm(x, (3,)), [(3, 4)]),
    "softmax": (lambda x: functional.softmax(x, 5), [(3, 4)]),
    "softmax of long": (lambda x: functional.softmax(x.long(), 0), [(3, 4)]),
    "gather dtype": (lambda x: x.gather(0, x), [(3, 4)]),
    "index_select dtype": (lambda x: x.index_select(0, x[0]), [(3, 4)]),
    "index by floats": (lambda x: x[x], [(3, 4)]),
    "embedding dtype": (functional.embedding, [(2,), (3, 4)]),
    "cross_entropy": (
        lambda x, y: functional.cross_entropy(x, y.long()),
        [(3, 4), (2,)],
    ),
    "max_pool2d": (lambda x: functional.max_pool2d(x, 3), [(1, 1, 2, 2)]),
    "batch_norm": (functional.batch_norm, [(2, 3), (4,), (4,)]),
    "topk": (lambda x: x.topk(9), [(3, 4)]),
    "mean of long": (lambda x: x.long().mean(), [(3, 4)]),
    "masked_fill": (lambda x: x.masked_fill(x, 1.0), [(3, 4)]),
    "scatter of two dtypes": (
        lambda x: x.scatter(0, x.long(), x.double()),
        [(3, 4)],
    ),
    "foreach": (lambda x, y: torch._foreach_add([x], [y]), [(3, 4), (5,)]),
    "bitwise_and": (lambda x: x & 1, [(3, 4)]),
    "cholesky": (torch.linalg.cholesky, [(3, 4)]),
    "dropout": (lambda x: functional.dropout(x, 1.5), [(3, 4)]),
    "bernoulli_": (lambda x: x.bernoulli_(1.5), [(3, 4)]),
    "overlap of index_put_": (
        lambda x: x.index_put_((x[0].long() * 0,), x[0]),
        [(3, 4)],
    ),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_refusal_does_not_wait_for_a_held_stream(gate, watch, name):
    call, sizes = AT_ONCE[name]
    expected = failure_of(lambda: call(*(numbers(*size) for size in sizes)))
    arguments = [floats(DEVICE, *size) for size in sizes]
    errors: list[Exception] = []
    gate.hold()
    returned = watch.returns(
        lambda: errors.append(failure_of(lambda: call(*arguments)))
    )
    gate.open()
    watch.finish()
    assert type(errors[0]) is type(expected)
    assert returned


# Two devices


MIXED: dict[str, Callable[[Tensor, Tensor], object]] = {
    "add": torch.add,
    "add in place": lambda x, y: x.add_(y),
    "add out": lambda x, y: torch.add(x, 1, out=y),
    "matmul": lambda x, y: x @ y.t(),
    "cat": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack([x, y]),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "gather": lambda x, y: x.gather(0, y.long().abs().clamp(max=0)),
    "index_select": lambda x, y: x.index_select(0, y[0, :2].long() * 0),
    "index_put value": lambda x, y: x.__setitem__(
        torch.zeros(3, dtype=torch.long, device=x.device), y
    ),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 1.0),
    "foreach": lambda x, y: torch._foreach_add([x], [y]),
    "linear": lambda x, y: functional.linear(x, y),
    "conv": lambda x, y: functional.conv1d(x[None], y[None, :, :2]),
    "layer_norm": lambda x, y: functional.layer_norm(x, (4,), y[0]),
    "embedding": lambda x, y: functional.embedding(y[0].long() * 0, x),
    "cross_entropy": lambda x, y: functional.cross_entropy(x, y[:, 0].long() * 0),
    "mse_loss": functional.mse_loss,
    "attention": lambda x, y: functional.scaled_dot_product_attention(
        x[None, None], y[None, None], x[None, None]
    ),
    "lerp": lambda x, y: torch.lerp(x, y, 0.5),
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y),
    "lstm": lambda x, y: torch.nn.LSTM(4, 4).to(y.device)(x),
    "batch_norm": lambda x, y: functional.batch_norm(x, y[0], y[0]),
}
PAIRS = [(DEVICE, "cpu"), ("cpu", DEVICE), ("openreg:0", "openreg:1")]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("name", MIXED)
def test_two_devices_in_a_call_are_a_runtime_error_and_nothing_changes(name, pair):
    x, y = (floats(device) for device in pair)
    error = failure_of(lambda: MIXED[name](x, y))
    assert type(error) is RuntimeError
    assert "device" in str(error)
    assert "meta" not in str(error)
    torch.openreg.synchronize(0)
    torch.openreg.synchronize(1)
    assert torch.equal(x.cpu(), floats("cpu"))
    assert torch.equal(y.cpu(), floats("cpu"))


def test_two_devices_are_named_in_the_message():
    with pytest.raises(
        RuntimeError,
        match="Expected all tensors to be on the same device, but found at least two "
        r"devices, openreg:0 and (cpu|openreg:1)!",
    ):
        floats(DEVICE) + floats("openreg:1")
    with pytest.raises(RuntimeError, match="openreg:0 and cpu"):
        floats(DEVICE) + floats("cpu")
    with pytest.raises(RuntimeError, match="openreg:0"):
        floats(DEVICE).clamp(torch.tensor(-0.5), torch.tensor(0.5))


# Nothing has changed after a refusal


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.add_(torch.ones(5, device=x.device)),
        lambda x: x.copy_(torch.ones(5, device=x.device)),
        lambda x: torch.add(x, torch.ones(5, device=x.device), out=x),
        lambda x: torch.mm(x, x, out=x),
        lambda x: x.index_put_((x.new_zeros(2).long(),), x.new_zeros(7)),
        lambda x: x.resize_(-1),
        lambda x: x.unsqueeze_(7),
        lambda x: x.transpose_(0, 3),
        lambda x: x.bernoulli_(3.0),
        lambda x: x.masked_fill_(x > 0, torch.ones(2, device=x.device)),
        lambda x: x.set_(torch.ones(2, dtype=torch.double, device=x.device)),
        lambda x: torch._foreach_add_([x, x], [1.0]),
        lambda x: torch.cat([x, x.double()], out=x.long()),
    ],
)
def test_a_refused_call_leaves_its_tensors_as_they_were(call):
    x = floats(DEVICE)
    state = torch.openreg.get_rng_state()
    version = x._version
    error = assert_refused_as_on_the_cpu(
        lambda device: call(x if device == DEVICE else floats(device))
    )
    assert not isinstance(error, torch.AcceleratorError)
    torch.openreg.synchronize()
    assert x.shape == (3, 4)
    assert x.stride() == (4, 1)
    assert x._version <= version + 1
    assert torch.equal(x.cpu(), floats("cpu"))
    assert torch.equal(torch.openreg.get_rng_state(), state)


# Generators


def test_a_generator_of_another_kind_of_device_is_refused():
    generator = torch.Generator().manual_seed(1)
    state = generator.get_state()
    for call in (
        lambda: torch.randn(3, device=DEVICE, generator=generator),
        lambda: torch.ones(3, device=DEVICE).normal_(generator=generator),
        lambda: torch.randperm(3, device=DEVICE, generator=generator),
        lambda: torch.bernoulli(torch.ones(3, device=DEVICE), generator=generator),
    ):
        with pytest.raises(RuntimeError, match="Expected a 'openreg' device type"):
            call()
    assert torch.equal(generator.get_state(), state)


def test_a_generator_of_the_device_draws_for_it_alone():
    generator = torch.Generator(DEVICE).manual_seed(5)
    cpu = torch.Generator().manual_seed(5)
    state = torch.openreg.get_rng_state()
    found = [torch.randn(3, device=DEVICE, generator=generator) for _ in range(3)]
    expected = [torch.randn(3, generator=cpu) for _ in range(3)]
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours.cpu(), theirs)
    assert torch.equal(torch.openreg.get_rng_state(), state)


def test_what_neither_zeros_nor_ones_fit_is_left_to_the_data():
    """Zero points have to lie within limits that the call names."""

    def program(device):
        return torch.fake_quantize_per_channel_affine(
            torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device),
            torch.tensor([0.1, 0.2], device=device),
            torch.tensor([5, 6], dtype=torch.int32, device=device),
            axis=0,
            quant_min=5,
            quant_max=10,
        )

    assert_as_on_the_cpu(program)
