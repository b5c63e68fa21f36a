"""Channels last: results have the CPU's order in memory, and its values."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from same_layout import DEVICE, assert_as_on_the_cpu, numbers

FORMATS = {
    "2d": (torch.channels_last, (2, 3, 4, 5)),
    "3d": (torch.channels_last_3d, (2, 3, 4, 5, 6)),
}
formats = pytest.mark.parametrize(
    ("memory_format", "shape"), FORMATS.values(), ids=FORMATS.keys()
)


@formats
def test_there_and_back(memory_format, shape):
    x = numbers(*shape).contiguous(memory_format=memory_format)
    there = x.to(DEVICE)
    assert there.is_contiguous(memory_format=memory_format)
    assert there.stride() == x.stride()
    assert there.cpu().stride() == x.stride()
    assert torch.equal(there.cpu(), x)
    assert there.to("openreg:1").stride() == x.stride()
    plain = x.contiguous().to(DEVICE, memory_format=memory_format)
    assert plain.stride() == x.stride()


PROGRAMS = {
    "add": lambda x: x + x,
    "add plain": lambda x: x + x.contiguous(),
    "relu": lambda x: x.relu(),
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.contiguous(),
    "empty_like": lambda x: torch.zeros_like(x),
    "preserve": lambda x: x.to(torch.float64),
    "cat": lambda x: torch.cat([x, x], 1),
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean((2, 3), keepdim=True),
    "softmax": lambda x: F.softmax(x, 1),
    "permute": lambda x: x.movedim(1, -1),
    "flip": lambda x: x.flip(1),
    "mul_": lambda x: x.clone().mul_(2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: F.group_norm(x, 3),
    "where": lambda x: torch.where(x > 0, x, -x),
}


@formats
@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_and_values_are_the_cpus(name, memory_format, shape):
    x = numbers(*shape).contiguous(memory_format=memory_format)
    assert_as_on_the_cpu(PROGRAMS[name], x)


IMAGES = {
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(torch.cat([x] * 4, 1), 2),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images(name):
    x = numbers(2, 3, 4, 6).contiguous(memory_format=torch.channels_last)
    assert_as_on_the_cpu(IMAGES[name], x, gradients=True)


def test_a_network_stays_in_channels_last():
    outcomes = []
    for device in (DEVICE, "cpu"):
        torch.manual_seed(1)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 4, 1),
        )
        net = net.to(device, memory_format=torch.channels_last)
        x = numbers(2, 3, 8, 8).to(device, memory_format=torch.channels_last)
        result = net(x)
        result.square().mean().backward()
        assert result.is_contiguous(memory_format=torch.channels_last)
        outcomes.append([result.detach(), *(p.grad for p in net.parameters())])
    for found, expected in zip(*outcomes, strict=True):
        assert found.stride() == expected.stride()
        # The sums of a convolution's gradient have the order of the threads.
        torch.testing.assert_close(found.cpu(), expected)
