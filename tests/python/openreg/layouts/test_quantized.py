"""Quantized tensors, per tensor and per channel: the CPU's results, on the device."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from same_layout import (
    DEVICE,
    assert_as_on_the_cpu,
    assert_refused_alike,
    assert_same,
    assert_same_tensor,
    numbers,
)

DTYPES = [torch.quint8, torch.qint8, torch.qint32]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def per_tensor(x: torch.Tensor, dtype: torch.dtype = torch.quint8) -> torch.Tensor:
    """``x`` with one scale."""
    return torch.quantize_per_tensor(x, 0.05, 3, dtype)


def per_channel(
    x: torch.Tensor, dtype: torch.dtype = torch.qint8, axis: int = 0
) -> torch.Tensor:
    """``x`` with a scale and a zero point for each index of a dimension."""
    count = x.shape[axis]
    scales = torch.linspace(0.01, 0.1, count, dtype=torch.double, device=x.device)
    return torch.quantize_per_channel(
        x, scales, torch.arange(count, device=x.device), axis, dtype
    )


def per_channel_float(
    x: torch.Tensor, dtype: torch.dtype = torch.quint8
) -> torch.Tensor:
    """The same with parameters that are floats."""
    scales = torch.linspace(0.01, 0.1, x.shape[0], device=x.device)
    return torch.quantize_per_channel(x, scales, -scales, 0, dtype)


def images() -> torch.Tensor:
    """Two images of three channels, on the host."""
    return numbers(2, 3, 4, 4)


@dtypes
@pytest.mark.parametrize("make", [per_tensor, per_channel], ids=lambda f: f.__name__)
def test_quantized_on_the_device(make, dtype):
    assert_as_on_the_cpu(lambda x: make(x, dtype), images())
    assert_as_on_the_cpu(lambda x: make(x, dtype).dequantize(), images())
    assert_as_on_the_cpu(lambda x: make(x, dtype).int_repr(), images())


@dtypes
@pytest.mark.parametrize("make", [per_tensor, per_channel], ids=lambda f: f.__name__)
def test_there_and_back(make, dtype):
    tensor = make(images(), dtype)
    there = tensor.to(DEVICE)
    assert_same_tensor(there, tensor)
    back = there.cpu()
    assert back.qscheme() == tensor.qscheme()
    assert torch.equal(back.int_repr(), tensor.int_repr())
    assert_same_tensor(there.to("openreg:1"), tensor)
    assert there.to("openreg:1").device.index == 1


@pytest.mark.parametrize("dtype", [torch.quint8, torch.quint4x2], ids=str)
def test_parameters_that_are_floats(dtype):
    assert_as_on_the_cpu(lambda x: per_channel_float(x, dtype), numbers(4, 6))
    tensor = per_channel_float(numbers(4, 6), dtype)
    assert_same_tensor(tensor.to(DEVICE), tensor)
    assert torch.equal(tensor.to(DEVICE).cpu().dequantize(), tensor.dequantize())


def test_parameters_lie_on_the_device():
    tensor = per_channel(images()).to(DEVICE)
    assert tensor.q_per_channel_scales().device.type == DEVICE
    assert tensor.q_per_channel_zero_points().device.type == DEVICE


WAYS = {
    "dynamic": lambda x: torch.quantize_per_tensor_dynamic(x, torch.quint8, False),
    "parameters as tensors": lambda x: torch.quantize_per_tensor(
        x,
        torch.tensor(0.1, device=x.device),
        torch.tensor(2, device=x.device),
        DTYPES[0],
    ),
    "a list": lambda x: torch.quantize_per_tensor(
        [x, 2 * x],
        torch.tensor([0.1, 0.2], device=x.device),
        torch.tensor([1, 2], device=x.device),
        torch.quint8,
    ),
    "dequantize a list": lambda x: torch.dequantize([per_tensor(x), per_channel(x)]),
    "of integers": lambda x: torch._make_per_tensor_quantized_tensor(
        torch.arange(9, dtype=torch.uint8, device=x.device), 0.1, 1
    ),
    "in channels last": lambda x: per_tensor(x.to(memory_format=torch.channels_last)),
    "of nothing": lambda x: per_tensor(x[:0]),
    "fake": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255),
}


@pytest.mark.parametrize("name", WAYS)
def test_ways_to_quantize(name):
    assert_as_on_the_cpu(WAYS[name], images())


PROGRAMS = {
    "relu": lambda q: q.relu(),
    "relu6": lambda q: F.relu6(q),
    "hardtanh": lambda q: F.hardtanh(q),
    "sigmoid": lambda q: q.sigmoid(),
    "tanh": lambda q: q.tanh(),
    "gelu": lambda q: F.gelu(q),
    "leaky_relu": lambda q: F.leaky_relu(q),
    "clamp": lambda q: q.clamp(-0.5, 0.5),
    "max_pool2d": lambda q: F.max_pool2d(q, 2),
    "avg_pool2d": lambda q: F.avg_pool2d(q, 2),
    "adaptive_avg_pool2d": lambda q: F.adaptive_avg_pool2d(q, 2),
    "interpolate": lambda q: F.interpolate(q, scale_factor=2, mode="bilinear"),
    "pad": lambda q: F.pad(q, (1, 1, 1, 1), mode="reflect"),
    "cat": lambda q: torch.cat([q, q]),
    "stack": lambda q: torch.stack([q, q]),
    "mean": lambda q: q.mean((2, 3)),
    "max": lambda q: list(q.max(1)),
    "sort": lambda q: list(q.sort(-1)),
    "topk": lambda q: list(q.topk(2)),
    "comparison": lambda q: q < 0.5,
    "equal": lambda q: q.equal(q.clone()),
    "index": lambda q: q[torch.tensor([1, 0], device=q.device)],
    "flip": lambda q: q.flip(1),
    "clone": lambda q: q.clone(),
    "view": lambda q: q.view(6, 16),
    "transpose": lambda q: q.transpose(1, 2),
    "contiguous": lambda q: q.transpose(1, 2).contiguous(),
    "slice": lambda q: q[:, 1:],
    "item": lambda q: q[0, 1, 2, 3].item(),
    "quantized::add": lambda q: torch.ops.quantized.add(q, q, 0.1, 2),
    "quantized::mul": lambda q: torch.ops.quantized.mul(q, q, 0.1, 2),
    "quantized::cat": lambda q: torch.ops.quantized.cat([q, q], 1, 0.1, 2),
    "relu_": lambda q: q.relu_(),
    "fill_": lambda q: q.fill_(1.0),
    "resize_": lambda q: q.resize_(3, 4),
    "masked_fill_": lambda q: q.masked_fill_(q > 0, 0.5),
    "copy_ of floats": lambda q: q.copy_(2 * q.dequantize()),
    "copy_ of another scale": lambda q: q.copy_(
        torch.quantize_per_tensor(q.dequantize(), 0.2, 1, torch.quint8)
    ),
    "item assignment": lambda q: q[0].copy_(q[1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_results_are_the_cpus(name):
    assert_as_on_the_cpu(PROGRAMS[name], per_tensor(images()))


def test_a_copy_between_host_and_device_takes_the_parameters_along():
    source = torch.quantize_per_tensor(images(), 0.2, 1, torch.quint8)
    target = per_tensor(images()).to(DEVICE)
    assert_same_tensor(target.copy_(source), source)
    channels = per_channel(2 * images())
    assert_same_tensor(per_channel(images()).to(DEVICE).copy_(channels), channels)


def test_new_tensors():
    made = torch._empty_affine_quantized(
        [2, 3], scale=0.1, zero_point=2, dtype=torch.quint8, device=DEVICE
    )
    assert (made.q_scale(), made.q_zero_point()) == (0.1, 2)
    like = torch.empty_like(made)
    assert (like.device.type, like.q_scale()) == (DEVICE, 0.1)
    assert torch.empty(3, dtype=torch.qint8, device=DEVICE).is_quantized


@pytest.mark.parametrize("make", [per_tensor, per_channel], ids=lambda f: f.__name__)
def test_repr_is_the_cpus_but_for_the_device(make):
    tensor = make(numbers(2, 3))
    ours = "".join(repr(tensor.to(DEVICE)).split())
    assert ours.replace(",device='openreg:0'", "") == "".join(repr(tensor).split())


@pytest.mark.parametrize("make", [per_tensor, per_channel], ids=lambda f: f.__name__)
def test_saved_loaded_and_copied(make):
    tensor = make(images())
    there = tensor.to(DEVICE)
    file = io.BytesIO()
    torch.save(there, file)
    file.seek(0)
    assert_same_tensor(torch.load(file, weights_only=True), tensor)
    assert_same_tensor(copy.deepcopy(there), tensor)


def test_gradients_pass_fake_quantization():
    def program(x):
        return torch.fake_quantize_per_channel_affine(
            x,
            torch.tensor([0.1, 0.2], device=x.device),
            torch.zeros(2, dtype=torch.int32, device=x.device),
            0,
            -8,
            7,
        )

    assert_as_on_the_cpu(program, images(), gradients=True)


def test_packed_weights_fall_back():
    """They are objects of the host: such a layer runs there, and is counted."""
    weight = per_tensor(numbers(5, 4), torch.qint8)
    x = torch.quantize_per_tensor(numbers(2, 4), 0.1, 3, torch.quint8)
    packed = torch.ops.quantized.linear_prepack(weight, None)
    expected = torch.ops.quantized.linear(x, packed, 0.1, 2)
    with pytest.raises(NotImplementedError, match="would run on the CPU"):
        torch.ops.quantized.linear(x.to(DEVICE), packed, 0.1, 2)
    torch.openreg.set_strict(False)
    try:
        ours = torch.ops.quantized.linear_prepack(weight.to(DEVICE), None)
        found = torch.ops.quantized.linear(x.to(DEVICE), ours, 0.1, 2)
    finally:
        torch.openreg.set_strict(True)
    assert_same_tensor(found, expected)
    names = [entry.operator for entry in torch.openreg.fallback_report()]
    assert "quantized::linear" in names
    torch.openreg.reset_fallback_report()


def test_other_devices_are_refused():
    tensor = per_tensor(images()).to(DEVICE)
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.cat([tensor, per_tensor(images())])
    with pytest.raises(RuntimeError, match="same device"):
        tensor.copy_(images())
    with pytest.raises(RuntimeError, match="same qscheme"):
        tensor.copy_(per_channel(images(), torch.quint8))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: per_tensor(x.double()),
        lambda x: per_channel(x, axis=9),
        lambda x: per_channel(x).resize_(3, 4),
        lambda x: per_tensor(x) + per_tensor(x),
        lambda x: torch.empty_like(x).copy_(per_tensor(x)),
        lambda x: per_tensor(x).copy_(per_tensor(x, torch.qint8)),
        lambda x: per_tensor(x).q_per_channel_scales(),
        lambda x: per_tensor(x).sum(),
    ],
)
def test_what_the_cpu_refuses_is_refused_alike(program):
    assert_refused_alike(program, images())


def test_work_goes_on_after_a_refusal():
    tensor = per_tensor(images()).to(DEVICE)
    with pytest.raises(RuntimeError):
        tensor.q_per_channel_axis()
    assert_same(tensor.relu(), per_tensor(images()).relu())
