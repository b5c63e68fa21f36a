"""Sizes of zero, many dimensions, memory formats and strides."""

import pytest
import torch
from compare import DEVICE, assert_as_on_the_cpu, assert_same, numbers
from torch.nn import functional

Tensor = torch.Tensor


def floats(device: str, *shape: int) -> Tensor:
    return numbers(*(shape or (3, 4))).to(device)


def images(device: str, *shape: int) -> Tensor:
    return floats(device, *(shape or (2, 4, 6, 8))).to(
        memory_format=torch.channels_last
    )


# Sizes of zero, many dimensions


@pytest.mark.parametrize(
    "program",
    [
        lambda d: floats(d, 0) + 1,
        lambda d: floats(d, 0, 3).sum(),
        lambda d: floats(d, 0, 3).sum(0),
        lambda d: floats(d, 0, 3) @ floats(d, 3, 2),
        lambda d: floats(d, 2, 0) @ floats(d, 0, 3),
        lambda d: torch.cat([floats(d, 0, 3), floats(d, 2, 3)]),
        lambda d: torch.nonzero(floats(d, 0)),
        lambda d: floats(d, 0).unique(),
        lambda d: floats(d, 3)[floats(d, 3) > 100],
        lambda d: functional.softmax(floats(d, 0, 3), 1),
        lambda d: functional.layer_norm(floats(d, 0, 3), (3,)),
        lambda d: functional.relu(floats(d, 0, 3)).add_(1),
        lambda d: functional.conv2d(floats(d, 0, 2, 5, 5), floats(d, 3, 2, 3, 3)),
        lambda d: floats(d, 4)[torch.empty(0, dtype=torch.long, device=d)],
        lambda d: floats(d, 3, 0, 2).prod(2),
        lambda d: floats(d, 0).mean(),
        lambda d: floats(d, 0).index_add_(0, floats(d, 0).long(), floats(d, 0)),
        lambda d: floats(d, 4)[::2][:0].flip(0),
        lambda d: torch.zeros(0, device=d).tolist(),
        lambda d: torch.tensor(3.0, device=d).sum(),
        lambda d: torch.tensor(3.0, device=d).softmax(0),
        lambda d: floats(d, *[1] * 20, 3).sum(dim=20),
        lambda d: floats(d, *[2] * 12).permute(*range(11, -1, -1)) + 1,
        lambda d: floats(d, *[1] * 50, 3) * 2,
    ],
)
def test_no_elements_no_dimensions_and_many(program):
    assert_as_on_the_cpu(program)


# Memory formats and strides


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "program",
    [
        lambda d: images(d) + 1,
        lambda d: images(d) * floats(d, 4, 1, 1),
        lambda d: images(d) + floats(d, 2, 4, 6, 8),
        lambda d: floats(d, 2, 4, 6, 8) + images(d),
        lambda d: functional.conv2d(images(d), floats(d, 3, 4, 3, 3)),
        lambda d: functional.conv2d(images(d), images(d, 3, 4, 3, 3)),
        lambda d: functional.max_pool2d(images(d), 2),
        lambda d: functional.avg_pool2d(images(d), 2),
        lambda d: functional.adaptive_avg_pool2d(images(d), 1),
        lambda d: functional.batch_norm(images(d), None, None, training=True),
        lambda d: functional.group_norm(images(d), 2),
        lambda d: functional.interpolate(images(d), scale_factor=2),
        lambda d: functional.pad(images(d), (1, 1)),
        lambda d: torch.cat([images(d), images(d)], 1),
        lambda d: images(d).softmax(1),
        lambda d: images(d).sum(1, keepdim=True),
        lambda d: images(d).clone(),
        lambda d: images(d).clone(memory_format=torch.contiguous_format),
        lambda d: images(d).contiguous(),
        lambda d: torch.empty_like(images(d)).fill_(1),
        lambda d: torch.zeros_like(images(d)),
        lambda d: torch.ones_like(floats(d).t()),
        lambda d: images(d).to(torch.float64),
        lambda d: floats(d).t() + 1,
        lambda d: floats(d).t() + floats(d, 4, 3),
        lambda d: floats(d, 2, 3, 4).permute(2, 0, 1).exp(),
        lambda d: floats(d, 6, 8)[::2, ::3].relu(),
        lambda d: floats(d, 1, 4).expand(3, 4) * 2,
        lambda d: floats(d, 3, 4).t() @ floats(d, 4, 3).t(),
        lambda d: floats(d, 3, 4).t().cumsum(0),
        lambda d: floats(d, 3, 4).t().sort(),
        lambda d: torch.linalg.inv(floats(d, 3, 3)),
        lambda d: torch.linalg.qr(floats(d, 4, 3)),
        lambda d: torch.linalg.solve(floats(d, 3, 3), floats(d, 3, 2)),
        lambda d: torch.linalg.cholesky(torch.eye(3, device=d) * 4),
        lambda d: torch.fft.fft2(floats(d, 4, 4)),
        lambda d: torch.rand_like(images(d)).mul(0),
        lambda d: floats(d).new_zeros(2, 3),
        lambda d: torch.stft(
            floats(d, 64), 16, window=floats(d, 16), return_complex=True
        ),
    ],
)
def test_results_have_the_cpus_strides(program):
    assert_as_on_the_cpu(program)
    assert_as_on_the_cpu(program)


def test_a_result_does_not_share_its_memory_with_the_next():
    x = floats(DEVICE)
    first = x + 1
    second = x + 2
    assert_same([first, second], [floats("cpu") + 1, floats("cpu") + 2])


# Layouts that are contiguous and something else as well


def one_channel(device: str) -> Tensor:
    return images(device, 2, 1, 6, 8)


def one_pixel(device: str) -> Tensor:
    return images(device, 2, 4, 1, 1)


def one_image(device: str) -> Tensor:
    """The stride of the first dimension is never used."""
    return floats(device, 1, 4, 6, 8).as_strided((1, 4, 6, 8), (7, 48, 8, 1))


# Operators with a shape rule that takes contiguous tensors; C is the channels.
OF_IMAGES = {
    "conv2d": lambda x: functional.conv2d(x, floats(x.device, 3, x.size(1), 1, 1)),
    "conv2d, no padding": lambda x: functional.conv2d(
        functional.pad(x, (1, 1, 1, 1)), floats(x.device, 3, x.size(1), 3, 3)
    ),
    "conv2d, weight in channels last": lambda x: functional.conv2d(
        x, images(x.device, 3, x.size(1), 1, 1)
    ),
    "conv_transpose2d": lambda x: functional.conv_transpose2d(
        x, floats(x.device, x.size(1), 2, 3, 3)
    ),
    "adaptive_avg_pool2d": lambda x: functional.adaptive_avg_pool2d(x, (3, 2)),
    "pixel_shuffle": lambda x: functional.pixel_shuffle(
        x.expand(-1, 4, -1, -1) if x.size(1) == 1 else x, 2
    ),
    "pixel_unshuffle": lambda x: functional.pixel_unshuffle(x, 1),
    "grid_sample": lambda x: functional.grid_sample(
        x, floats(x.device, x.size(0), 3, 5, 2) / 40, align_corners=False
    ),
    "group_norm": lambda x: functional.group_norm(x, 1),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "instance_norm": lambda x: functional.instance_norm(functional.pad(x, (1, 1))),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[2:]),
    "flip": lambda x: x.flip(3),
    "roll": lambda x: x.roll(1, 2),
    "softmax": lambda x: x.softmax(1),
    "cumsum": lambda x: x.cumsum(3),
    "sum": lambda x: x.sum(1, keepdim=True),
    "cat": lambda x: torch.cat([x, x], 1),
    "stack": lambda x: torch.stack([x, x]),
    "take": lambda x: x.take(torch.arange(4, device=x.device).view(1, 4)),
    "index_select": lambda x: x.index_select(1, torch.tensor([0], device=x.device)),
    "embedding": lambda x: functional.embedding(
        torch.zeros(1, 2, dtype=torch.long, device=x.device), x.view(-1, 4)
    ),
    "leaky_relu": lambda x: functional.leaky_relu(x),
    "where": lambda x: torch.where(x > 3, x, x),
    "lerp": lambda x: torch.lerp(x, x, 0.5),
    "gradient of conv2d": lambda x: torch.autograd.grad(
        functional.conv2d(
            x.requires_grad_(), floats(x.device, 3, x.size(1), 1, 1)
        ).sum(),
        x,
    ),
    "gradient of group_norm": lambda x: torch.autograd.grad(
        functional.group_norm(x.requires_grad_(), 1).square().sum(), x
    ),
    "gradient of batch_norm": lambda x: torch.autograd.grad(
        functional.batch_norm(x.requires_grad_(), None, None, training=True)
        .square()
        .sum(),
        x,
    ),
    "gradient of adaptive_avg_pool2d": lambda x: torch.autograd.grad(
        functional.adaptive_avg_pool2d(x.requires_grad_(), (1, 1)).sum(), x
    ),
    "gradient of layer_norm": lambda x: torch.autograd.grad(
        functional.layer_norm(x.requires_grad_(), x.shape[2:]).square().sum(), x
    ),
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("layout", [one_channel, one_pixel, one_image])
@pytest.mark.parametrize("name", OF_IMAGES)
def test_what_is_contiguous_and_another_layout_too_gives_the_cpus_strides(name, layout):
    assert_as_on_the_cpu(lambda d: OF_IMAGES[name](layout(d)))
