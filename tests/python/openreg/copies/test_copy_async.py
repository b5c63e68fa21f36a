"""Copies and streams: which ones return at once, and in which order they run."""

import pytest
import torch

LARGE = 2 << 20  # elements: more than the driver stages
SMALL = 1 << 10  # 4 KiB


def pinned(*shape, value=1.0, dtype=torch.float32):
    return torch.full(shape, value, dtype=dtype, pin_memory=True)


def on_device(count, value=0.0, device="openreg:0"):
    """A tensor that is ready before the stream is held."""
    x = torch.full((count,), value, device=device)
    torch.openreg.synchronize(device)
    return x


# Which copies wait for a busy stream


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_pinned_to_device_returns_while_the_stream_is_busy(gate, watch, count):
    source, target = pinned(count), on_device(count)
    gate.hold()
    assert watch.returns(lambda: target.copy_(source, non_blocking=True))
    gate.open()
    assert target[-1].item() == 1.0


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_pinned_to_device_waits_if_it_may_block(gate, watch, count):
    source, target = pinned(count), on_device(count)
    gate.hold()
    assert watch.waits(lambda: target.copy_(source))


def test_large_pageable_to_device_waits_even_if_it_should_not_block(gate, watch):
    source, target = torch.ones(LARGE), on_device(LARGE)
    gate.hold()
    assert watch.waits(lambda: target.copy_(source, non_blocking=True))


def test_small_pageable_to_device_waits_if_it_may_block(gate, watch):
    source, target = torch.ones(SMALL), on_device(SMALL)
    gate.hold()
    assert watch.waits(lambda: target.copy_(source))


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_device_to_pinned_returns_and_the_bytes_come_later(gate, watch, count):
    source, target = on_device(count, 7.0), pinned(count)
    gate.hold()
    assert watch.returns(lambda: target.copy_(source, non_blocking=True))
    assert target[0].item() == 1.0
    assert target[-1].item() == 1.0
    gate.open()
    torch.openreg.synchronize()
    assert target[0].item() == 7.0
    assert target[-1].item() == 7.0


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_device_to_pinned_waits_if_it_may_block(gate, watch, count):
    source, target = on_device(count), pinned(count)
    gate.hold()
    assert watch.waits(lambda: target.copy_(source))


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_device_to_pageable_waits_even_if_it_should_not_block(gate, watch, count):
    source, target = on_device(count), torch.ones(count)
    gate.hold()
    assert watch.waits(lambda: target.copy_(source, non_blocking=True))


def test_move_to_the_host_returns_pinned_memory_if_it_should_not_block(gate, watch):
    source, moved = on_device(SMALL, 7.0), []
    gate.hold()
    assert watch.returns(lambda: moved.append(source.to("cpu", non_blocking=True)))
    assert moved[0].is_pinned()
    gate.open()
    torch.openreg.synchronize()
    assert moved[0].tolist() == [7.0] * SMALL


@pytest.mark.parametrize("move", [lambda x: x.cpu(), lambda x: x.to("cpu")])
def test_move_to_the_host_waits(gate, watch, move):
    source = on_device(SMALL)
    gate.hold()
    assert watch.waits(lambda: move(source))


def test_move_of_pinned_memory_to_the_device_returns(gate, watch):
    source, moved = pinned(LARGE), []
    torch.empty(LARGE, device="openreg")  # the cache serves it: allocating may wait
    gate.hold()
    assert watch.returns(lambda: moved.append(source.to("openreg", non_blocking=True)))
    gate.open()
    assert moved[0][-1].item() == 1.0


def test_new_tensor_from_values_waits(gate, watch):
    on_device(1)
    gate.hold()
    assert watch.waits(lambda: torch.tensor([1.0, 2.0], device="openreg"))


@pytest.mark.parametrize("non_blocking", [False, True])
@pytest.mark.parametrize("count", [SMALL, LARGE])
@pytest.mark.parametrize(
    "target", ["openreg:0", "openreg:1"], ids=["one device", "two devices"]
)
def test_device_to_device_returns(gate, watch, target, count, non_blocking):
    x, y = on_device(count, 3.0), on_device(count, device=target)
    gate.hold()
    assert watch.returns(lambda: y.copy_(x, non_blocking=non_blocking))
    gate.open()
    assert y[-1].item() == 3.0


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.clone(),
        lambda x: x.view(2, -1).t().contiguous(),
        lambda x: x.to(torch.float64),
        lambda x: x.view(2, -1).t().to(torch.int16),
        lambda x: x[::2].clone(),
        lambda x: x.to("openreg:1", torch.int32),
        lambda x: x.view(2, -1).t()[::3].to("openreg:1"),
        lambda x: x.unsqueeze(0).expand(2, -1).contiguous(),
        lambda x: x.to(torch.complex64).conj().resolve_conj(),
    ],
    ids=[
        "clone",
        "transpose",
        "convert",
        "convert transposed",
        "every second",
        "convert between devices",
        "strided between devices",
        "expand",
        "conjugate",
    ],
)
@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_copies_on_devices_of_every_kind_return(gate, watch, call, count):
    x, found = on_device(count, 3.0), []
    expected = call(x).cpu()
    gate.hold()
    assert watch.returns(lambda: found.append(call(x)))
    assert not torch.openreg.current_stream().query()
    gate.open()
    assert torch.equal(found[0].cpu(), expected)


def test_conversion_into_pinned_memory_returns(gate, watch):
    """The device converts, so that only bytes travel."""
    source, target = on_device(SMALL, 3.0), pinned(SMALL, dtype=torch.float64)
    gate.hold()
    assert watch.returns(lambda: target.copy_(source, non_blocking=True))
    gate.open()
    torch.openreg.synchronize()
    assert target.tolist() == [3.0] * SMALL


def complex_pinned():
    return pinned(4, LARGE // 4, value=1 + 2j, dtype=torch.cfloat)


CONVERTED = {
    "half to float": (lambda: pinned(LARGE, dtype=torch.half), torch.float),
    "float to int": (lambda: pinned(4, LARGE // 4, value=-2.5), torch.int16),
    "transposed": (lambda: pinned(4, LARGE // 4, value=2.5).t(), torch.float),
    "transposed, to double": (
        lambda: pinned(4, LARGE // 4, value=0.1).t(),
        torch.double,
    ),
    "conjugated": (lambda: complex_pinned().conj(), torch.cfloat),
    "conjugated, to double": (lambda: complex_pinned().conj(), torch.cdouble),
    "negative": (lambda: torch._neg_view(pinned(LARGE)), torch.float),
    "small": (lambda: pinned(SMALL, value=0.1), torch.half),
}


@pytest.mark.parametrize(("make", "dtype"), CONVERTED.values(), ids=CONVERTED)
def test_conversion_of_pinned_memory_returns(gate, watch, make, dtype):
    """The bytes travel as they are, and the device converts them."""
    source = make()
    expected = torch.empty(source.shape, dtype=dtype).copy_(source)
    target = torch.zeros(source.shape, dtype=dtype, device="openreg")
    staging = torch.empty_like(source, device="openreg")
    del staging  # the cache serves it: allocating may wait
    torch.openreg.synchronize()
    gate.hold()
    assert watch.returns(lambda: target.copy_(source, non_blocking=True))
    gate.open()
    assert torch.equal(target.cpu(), expected)


def test_move_of_pinned_memory_to_another_dtype_returns(gate, watch):
    source, moved = pinned(LARGE, value=0.1, dtype=torch.float16), []
    source.to("openreg", torch.float32, non_blocking=True)  # fills the cache
    torch.openreg.synchronize()
    gate.hold()
    assert watch.returns(
        lambda: moved.append(source.to("openreg", torch.float32, non_blocking=True))
    )
    gate.open()
    assert torch.equal(moved[0].cpu(), source.float())


def test_conversion_of_pinned_memory_waits_if_it_may_block(gate, watch):
    source, target = pinned(SMALL, dtype=torch.float16), on_device(SMALL)
    gate.hold()
    assert watch.waits(lambda: target.copy_(source))


def test_pinned_memory_lives_until_it_is_converted(gate):
    """The block goes back to the host's cache, and is not given away too early."""
    source, target = pinned(SMALL, dtype=torch.float16), on_device(SMALL)
    address = source.data_ptr()
    gate.hold()
    target.copy_(source, non_blocking=True)
    del source
    other = pinned(SMALL, value=9.0, dtype=torch.float16)
    assert other.data_ptr() != address
    gate.open()
    assert target.tolist() == [1.0] * SMALL


def test_destination_with_gaps_on_the_host_waits(gate, watch):
    source, target = on_device(SMALL, 3.0), pinned(2 * SMALL)
    gate.hold()
    assert watch.waits(lambda: target[::2].copy_(source, non_blocking=True))


def test_pinned_memory_into_a_destination_with_gaps_returns(gate, watch):
    source, target = pinned(LARGE), on_device(2 * LARGE)
    gate.hold()
    assert watch.returns(lambda: target[::2].copy_(source, non_blocking=True))
    gate.open()
    assert target[-2:].tolist() == [1.0, 0.0]


def test_strides_of_single_rows_do_not_make_a_copy_wait(gate, watch):
    """Pinned memory of one column and of one row is the same run of bytes."""
    source, target = pinned(LARGE, 1).t(), on_device(LARGE).view(1, LARGE)
    assert source.stride() != target.stride()
    gate.hold()
    assert watch.returns(lambda: target.copy_(source, non_blocking=True))


# When the source is read


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_pinned_source_is_read_when_the_stream_gets_there(gate, count):
    source, target = pinned(count), on_device(count)
    gate.hold()
    target.copy_(source, non_blocking=True)
    source.fill_(5.0)
    gate.open()
    assert target[-1].item() == 5.0


def test_small_pageable_source_is_read_at_the_call(gate, watch):
    source, target = torch.ones(SMALL), on_device(SMALL)
    gate.hold()
    assert watch.returns(lambda: target.copy_(source, non_blocking=True))
    source.fill_(5.0)
    gate.open()
    assert target.tolist() == [1.0] * SMALL


def test_slices_of_pinned_memory_are_pinned(gate, watch):
    source, target = pinned(4, LARGE), on_device(LARGE)
    gate.hold()
    assert watch.returns(lambda: target.copy_(source[2], non_blocking=True))
    source[2].fill_(5.0)
    gate.open()
    assert target[-1].item() == 5.0


# Storages


def test_storage_copy_between_pinned_memory_and_device_returns(gate, watch):
    source, target = pinned(SMALL).untyped_storage(), on_device(SMALL)
    gate.hold()
    storage = target.untyped_storage()
    assert watch.returns(lambda: storage.copy_(source, non_blocking=True))
    gate.open()
    assert target.tolist() == [1.0] * SMALL
