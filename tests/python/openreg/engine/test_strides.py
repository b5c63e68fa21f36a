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
