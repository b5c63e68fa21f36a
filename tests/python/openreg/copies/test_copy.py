"""Copies between host and devices: what arrives."""

import itertools
import warnings

import pytest
import torch

DIRECTIONS = {
    "host to device": ("cpu", "openreg:0"),
    "device to host": ("openreg:1", "cpu"),
    "on one device": ("openreg:1", "openreg:1"),
    "between devices": ("openreg:0", "openreg:1"),
}
QUANTIZED = {
    torch.qint8,
    torch.quint8,
    torch.qint32,
    torch.quint4x2,
    torch.quint2x4,
}
DTYPES = sorted(
    {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    - QUANTIZED,
    key=str,
)
# Those that PyTorch computes with, and those that only hold bits.
OPAQUE = {
    dtype
    for dtype in DTYPES
    if any(name in str(dtype) for name in ("bits", "float4", "int1", "int2", "int3"))
    or str(dtype).removeprefix("torch.").lstrip("u") in {"int4", "int5", "int6", "int7"}
} - {torch.int16, torch.int32, torch.uint16, torch.uint32}
NUMBERS = [dtype for dtype in DTYPES if dtype not in OPAQUE]

directions = pytest.mark.parametrize(
    ("source", "target"), DIRECTIONS.values(), ids=DIRECTIONS.keys()
)


@pytest.fixture(autouse=True)
def _quiet():
    """Complex numbers of half precision, and lost imaginary parts, warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def bits(tensor):
    """The memory of a tensor, with gaps, as bytes."""
    return bytes(tensor.untyped_storage().cpu())


def opaque(dtype, count=4):
    """A tensor with every byte different, of any dtype."""
    size = count * torch.empty(0, dtype=dtype).element_size()
    return torch.arange(1, size + 1, dtype=torch.uint8).view(dtype)


def numbers(dtype, *shape):
    """Small numbers that every dtype can hold."""
    count = int(torch.tensor(shape).prod())
    values = torch.arange(count) % 13
    if dtype.is_complex:
        return torch.complex(values.float(), values.float() + 1).to(dtype).view(shape)
    return values.to(dtype).view(shape)


# Dtypes


@directions
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits_of_every_dtype_arrive(source, target, dtype):
    x = opaque(dtype) if dtype != torch.bool else torch.tensor([True, False])
    moved = x.to(source).to(target)
    assert moved.dtype == dtype
    assert str(moved.device) == target
    assert bits(moved) == bits(x)


@directions
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_every_conversion_is_the_cpus(source, target, dtype):
    x = numbers(dtype, 4, 5)
    on_source = x.to(source)
    for other in NUMBERS:
        expected = torch.zeros(4, 5).to(other).copy_(x)
        found = torch.zeros(4, 5).to(other).to(target).copy_(on_source)
        assert bits(found) == bits(expected), (dtype, other)
        assert bits(on_source.to(target, other)) == bits(expected), (dtype, other)


@directions
@pytest.mark.parametrize("dtype", sorted(OPAQUE, key=str), ids=str)
def test_conversion_that_the_cpu_refuses_is_refused_at_the_call(source, target, dtype):
    x = opaque(dtype)
    for first, second in [(x, torch.ones(4)), (torch.ones(4), x)]:
        with pytest.raises(NotImplementedError) as expected:
            second.copy_(first)
        with pytest.raises(NotImplementedError) as found:
            second.to(target).copy_(first.to(source))
        assert str(found.value) == str(expected.value)


def test_refused_conversion_does_not_wait_for_the_stream(gate):
    x, y = torch.ones(4, device="openreg"), opaque(torch.bits8).to("openreg")
    gate.hold()
    with pytest.raises(NotImplementedError, match="not implemented for 'Bits8'"):
        x.copy_(y)


def test_lost_imaginary_part_warns_at_the_call():
    """Also where the copy runs on another thread."""
    torch.set_warn_always(True)
    try:
        for count in (1, 1 << 20):
            x = torch.zeros(count, dtype=torch.complex64, device="openreg")
            y = torch.zeros(count, device="openreg")
            with pytest.warns(UserWarning, match="discards the imaginary part"):
                y.copy_(x)
            with pytest.warns(UserWarning, match="discards the imaginary part"):
                torch.zeros(count).copy_(x)
    finally:
        torch.set_warn_always(False)


# Shapes and strides


def layouts(*shape):
    """Tensors of ``shape`` in memory of many kinds, by name."""
    reverse = list(range(len(shape)))[::-1]
    every_second = tuple(slice(None, None, 2) for _ in shape)
    inner = tuple(slice(1, 1 + size) for size in shape)
    wide = numbers(torch.float32, *(2 * size for size in shape))
    return {
        "contiguous": numbers(torch.float32, *shape),
        "transposed": numbers(torch.float32, *shape[::-1]).permute(reverse),
        "with gaps": wide[every_second],
        "transposed with gaps": wide.permute(reverse)[every_second].permute(reverse),
        "behind an offset": numbers(torch.float32, 3, *shape)[2],
        "inside of another": wide[inner],
    }


LAYOUTS = layouts(4, 4, 4)


def place(tensor, device):
    """A copy of all of a tensor's memory on ``device``, and the same view of it."""
    storage = tensor.untyped_storage().clone().to(device=torch.device(device))
    view = (tensor.storage_offset(), tensor.size(), tensor.stride())
    return torch.empty(0, device=device).set_(storage, *view)


@directions
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
@pytest.mark.parametrize(
    ("source_layout", "target_layout"), list(itertools.product(LAYOUTS, LAYOUTS))
)
def test_strides_of_both_sides_are_honoured(
    source, target, dtype, source_layout, target_layout
):
    """Gaps of the destination keep what they held."""
    x, y = place(LAYOUTS[source_layout], "cpu").sub_(50), LAYOUTS[target_layout]
    # Seen as another dtype of the same size, the copy is a conversion.
    expected, found = place(y, "cpu").view(dtype), place(y, target).view(dtype)
    expected.copy_(x)
    found.copy_(place(x, source))
    assert bits(found) == bits(expected)
    assert bits(found) != bits(y)


@pytest.mark.parametrize("name", LAYOUTS)
def test_moving_keeps_the_order_of_dense_tensors_and_closes_gaps(name):
    x = LAYOUTS[name]
    for device in ("openreg:0", "openreg:1", "cpu"):
        moved = place(x, "openreg:0").to(device, copy=True)
        assert moved.stride() == x.clone().stride()
        assert moved.tolist() == x.tolist()


def test_channels_last_stays_channels_last():
    x = numbers(torch.float32, 2, 3, 4, 5).to(memory_format=torch.channels_last)
    moved = x.to("openreg")
    assert moved.is_contiguous(memory_format=torch.channels_last)
    assert moved.cpu().is_contiguous(memory_format=torch.channels_last)
    plain = moved.contiguous()
    assert plain.is_contiguous()
    assert torch.equal(plain.cpu(), x)
    again = plain.to("openreg:1", memory_format=torch.channels_last)
    assert again.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(again.cpu(), x)


@directions
def test_source_is_broadcast(source, target):
    x = numbers(torch.int64, 3, 1)
    for view in (x, x.expand(3, 4), x[0, 0], x[:, 0, None]):
        expected = torch.zeros(2, 3, 4).copy_(view)
        found = torch.zeros(2, 3, 4, device=target).copy_(view.to(source))
        assert torch.equal(found.cpu(), expected)


@directions
def test_expanded_source_is_read_as_it_is(source, target):
    x = torch.ones(1, device=source).expand(5)
    assert torch.zeros(5, device=target).copy_(x).tolist() == [1.0] * 5


@directions
@pytest.mark.parametrize(
    ("shape", "other"), [((2,), (3,)), ((1,), (3,)), ((3,), (2, 3)), ((0,), (2,))]
)
def test_shapes_that_do_not_fit_are_the_cpus_error(source, target, shape, other):
    with pytest.raises(RuntimeError) as expected:
        torch.zeros(shape).copy_(torch.zeros(other))
    with pytest.raises(RuntimeError) as found:
        torch.zeros(shape, device=target).copy_(torch.zeros(other, device=source))
    assert str(found.value) == str(expected.value)


@directions
@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (0, 5)])
def test_copy_of_no_elements_does_nothing(source, target, shape):
    x = torch.zeros(shape, device=source)
    moved = x.to(target, torch.int32)
    assert moved.shape == shape
    assert torch.zeros(shape, device=target).copy_(x).numel() == 0


@directions
def test_copy_of_a_single_value(source, target):
    x = torch.tensor(2.5, device=source)
    assert torch.tensor(0, device=target).copy_(x).item() == 2
    assert x.to(target).item() == 2.5


@directions
def test_large_tensors_arrive(source, target):
    x = torch.arange(3 << 20, dtype=torch.int32)
    for view in (x, x.view(3, -1).t(), x[::3]):
        assert torch.equal(view.to(source).to(target).cpu(), view)


@directions
@pytest.mark.parametrize("count", [8, 64, 1024])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.complex128])
def test_matrices_are_transposed_on_the_way(source, target, count, dtype):
    """The CPU has a way of its own for large ones, with memory of its own."""
    x = (torch.arange(count * count).view(count, count) % 251).to(dtype)
    found = torch.zeros(count, count, dtype=dtype, device=target)
    assert torch.equal(found.copy_(x.to(source).t()).cpu(), x.t())
    assert torch.equal(x.to(source).t().contiguous().cpu(), x.t())


@directions
def test_tensors_of_many_dimensions(source, target):
    shape = [1] * 70 + [3, 1, 2]
    x = numbers(torch.float32, *shape).to(source).transpose(-1, -3)
    found = torch.zeros(x.shape, dtype=torch.int16, device=target).copy_(x)
    assert found.flatten().tolist() == x.flatten().tolist()
