"""With one thread, the device's numbers are the CPU's, bit for bit."""

from collections.abc import Callable

import pytest
import torch
from compare import DEVICE, assert_as_on_the_cpu, assert_same, numbers
from torch.nn import functional

Tensor = torch.Tensor


def floats(device: str, *shape: int) -> Tensor:
    return numbers(*shape).to(device)


EXACT: dict[str, Callable[[str], object]] = {
    "layer_norm": lambda d: functional.layer_norm(
        floats(d, 64, 300), (300,), floats(d, 300), floats(d, 300)
    ),
    "rms_norm": lambda d: functional.rms_norm(floats(d, 64, 300), (300,)),
    "softmax": lambda d: functional.softmax(floats(d, 64, 300), -1),
    "log_softmax": lambda d: functional.log_softmax(floats(d, 64, 300), 0),
    "conv2d": lambda d: functional.conv2d(
        floats(d, 4, 8, 20, 20), floats(d, 16, 8, 3, 3), floats(d, 16), padding=1
    ),
    "conv1d": lambda d: functional.conv1d(floats(d, 4, 8, 50), floats(d, 16, 8, 3)),
    "conv3d": lambda d: functional.conv3d(
        floats(d, 1, 2, 8, 8, 8), floats(d, 3, 2, 3, 3, 3)
    ),
    "grouped conv2d": lambda d: functional.conv2d(
        floats(d, 4, 8, 20, 20), floats(d, 8, 1, 3, 3), groups=8
    ),
    "dilated conv2d": lambda d: functional.conv2d(
        floats(d, 4, 8, 20, 20), floats(d, 16, 8, 3, 3), stride=2, dilation=2
    ),
    "conv_transpose2d": lambda d: functional.conv_transpose2d(
        floats(d, 4, 8, 10, 10), floats(d, 8, 16, 3, 3), stride=2
    ),
    "conv2d in bfloat16": lambda d: functional.conv2d(
        floats(d, 4, 8, 20, 20).bfloat16(), floats(d, 16, 8, 3, 3).bfloat16()
    ),
    "conv2d in channels_last": lambda d: functional.conv2d(
        floats(d, 4, 8, 20, 20).to(memory_format=torch.channels_last),
        floats(d, 16, 8, 3, 3),
    ),
    "batch_norm": lambda d: functional.batch_norm(
        floats(d, 16, 8, 10, 10), None, None, training=True
    ),
    "group_norm": lambda d: functional.group_norm(floats(d, 16, 8, 10, 10), 4),
    "matmul": lambda d: floats(d, 200, 300) @ floats(d, 300, 100),
    "matmul in bfloat16": lambda d: (
        floats(d, 200, 300).bfloat16() @ floats(d, 300, 100).bfloat16()
    ),
    "linear": lambda d: functional.linear(
        floats(d, 64, 300), floats(d, 50, 300), floats(d, 50)
    ),
    "sum": lambda d: floats(d, 100_000).sum(),
    "mean": lambda d: floats(d, 300, 300).mean(0),
    "var": lambda d: floats(d, 300, 300).var(1),
    "cumsum": lambda d: floats(d, 300, 300).cumsum(0),
    "gelu": lambda d: functional.gelu(floats(d, 300, 300)),
    "attention": lambda d: functional.scaled_dot_product_attention(
        *(floats(d, 2, 4, 60, 16),) * 3, is_causal=True
    ),
    "attention with groups": lambda d: functional.scaled_dot_product_attention(
        floats(d, 2, 4, 60, 16),
        *(floats(d, 2, 2, 60, 16),) * 2,
        enable_gqa=True,
    ),
    "cross_entropy": lambda d: functional.cross_entropy(
        floats(d, 64, 300), torch.arange(64, device=d)
    ),
    "svd": lambda d: torch.linalg.svdvals(floats(d, 20, 30)),
    "fft": lambda d: torch.fft.fft(floats(d, 1000)),
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", EXACT)
def test_numbers_are_the_cpus_bit_for_bit_with_one_thread(name):
    assert_as_on_the_cpu(EXACT[name])


def gradients(device: str, call: Callable[..., Tensor], *shapes: tuple[int, ...]):
    """The gradients of all arguments."""
    arguments = [floats(device, *shape).requires_grad_() for shape in shapes]
    output = call(*arguments)
    output.backward(floats(device, *output.shape))
    return [argument.grad for argument in arguments]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (functional.conv2d, [(4, 8, 20, 20), (16, 8, 3, 3), (16,)]),
        (functional.linear, [(20, 30), (7, 30), (7,)]),
        (
            lambda x, w, b: functional.layer_norm(x, (30,), w, b),
            [(20, 30), (30,), (30,)],
        ),
        (lambda x: functional.softmax(x, 1), [(20, 30)]),
        (lambda x: functional.gelu(x), [(20, 30)]),
        (lambda x: functional.max_pool2d(x, 2), [(2, 3, 8, 8)]),
        (
            lambda x: functional.batch_norm(x, None, None, training=True),
            [(8, 3, 8, 8)],
        ),
        (torch.matmul, [(20, 30), (30, 10)]),
        (lambda x, y: x * y.sum(0), [(20, 30), (4, 30)]),
        (functional.scaled_dot_product_attention, [(2, 4, 20, 8)] * 3),
    ],
)
def test_gradients_are_the_cpus_bit_for_bit_with_one_thread(call, shapes):
    assert_same(gradients(DEVICE, call, *shapes), gradients("cpu", call, *shapes))
