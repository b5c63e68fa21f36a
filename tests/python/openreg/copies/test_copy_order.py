"""Copies keep the order of their streams, on two devices too."""

import itertools
import threading

import pytest
import torch

COUNT = 1 << 10


def ready(value, device):
    """A tensor that no stream is still working on."""
    x = torch.full((COUNT,), float(value), device=device)
    torch.openreg.synchronize(device)
    return x


def test_copy_runs_on_the_current_stream_of_its_device(gate):
    side = torch.Stream("openreg:0")
    x, y = ready(1, "openreg:0"), ready(0, "openreg:0")
    gate.hold(side)
    with torch.openreg.stream(side):
        y.copy_(x)
    assert torch.openreg.default_stream(0).query()
    assert not side.query()


def test_copy_uses_the_stream_of_the_tensors_device_not_of_the_current_one(gate):
    x, y = ready(1, "openreg:1"), ready(0, "openreg:1")
    gate.hold(torch.openreg.default_stream(1))
    assert torch.openreg.current_device() == 0
    y.copy_(x)
    assert torch.openreg.default_stream(0).query()
    assert not torch.openreg.default_stream(1).query()


def test_each_thread_copies_on_its_own_stream(gate):
    """A thread that is on another stream does not wait for a busy one."""
    x = ready(1, "openreg:0")
    gate.hold(torch.openreg.default_stream(0))
    seen = []

    def read():
        with torch.openreg.stream(torch.Stream("openreg:0")):
            seen.append(x.cpu())

    thread = threading.Thread(target=read)
    thread.start()
    thread.join(timeout=60)
    assert seen[0].tolist() == [1.0] * COUNT


# Between devices


@pytest.mark.parametrize("side", [False, True], ids=["default", "side streams"])
def test_copy_waits_for_the_work_of_the_source(gate, side):
    x, y = ready(0, "openreg:0"), ready(0, "openreg:1")
    late = ready(5, "openreg:0")
    kind = torch.Stream if side else torch.openreg.default_stream
    first, second = kind("openreg:0"), kind("openreg:1")
    gate.hold(first)
    with torch.openreg.stream(first), torch.openreg.stream(second):
        x.copy_(late)
        y.copy_(x)
        assert not second.query()
        gate.open()
        second.synchronize()
    assert y.tolist() == [5.0] * COUNT


@pytest.mark.parametrize("side", [False, True], ids=["default", "side streams"])
def test_copy_waits_for_the_work_of_the_destination(gate, side):
    """What was written there before does not overwrite it."""
    x, y, before = ready(5, "openreg:0"), ready(0, "openreg:1"), ready(3, "openreg:1")
    kind = torch.Stream if side else torch.openreg.default_stream
    first, second = kind("openreg:0"), kind("openreg:1")
    gate.hold(second)
    with torch.openreg.stream(first), torch.openreg.stream(second):
        y.copy_(before)
        y.copy_(x)
        assert not first.query()
        gate.open()
        second.synchronize()
    assert y.tolist() == [5.0] * COUNT


def test_later_work_of_the_destination_waits_for_the_copy(gate):
    x, y, z = ready(5, "openreg:0"), ready(0, "openreg:1"), ready(0, "openreg:1")
    gate.hold(torch.openreg.default_stream(0))
    y.copy_(x)
    z.copy_(y)
    assert not torch.openreg.default_stream(1).query()
    gate.open()
    assert z.tolist() == [5.0] * COUNT


def test_later_work_of_the_source_waits_for_the_copy(gate):
    x, y, later = ready(5, "openreg:0"), ready(0, "openreg:1"), ready(7, "openreg:0")
    gate.hold(torch.openreg.default_stream(1))
    y.copy_(x)
    x.copy_(later)
    gate.open()
    assert y.tolist() == [5.0] * COUNT
    assert x.tolist() == [7.0] * COUNT


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_memory_of_a_source_that_is_dropped_is_not_overwritten_early(gate, dtype):
    y = torch.zeros(COUNT, dtype=dtype, device="openreg:1")
    x, other = ready(5, "openreg:0"), ready(9, "openreg:0")
    gate.hold(torch.openreg.default_stream(1))
    place = x.data_ptr()
    y.copy_(x)
    del x
    reused = torch.empty(COUNT, device="openreg:0")
    assert reused.data_ptr() == place
    reused.copy_(other)
    gate.open()
    assert y.tolist() == [5] * COUNT
    assert reused.tolist() == [9.0] * COUNT


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_memory_of_a_destination_that_is_dropped_is_not_overwritten_late(gate, dtype):
    x, other = ready(5, "openreg:0"), ready(9, "openreg:1").to(dtype)
    torch.openreg.synchronize(1)
    gate.hold(torch.openreg.default_stream(0))
    moved = x.to("openreg:1", dtype)
    place = moved.data_ptr()
    del moved
    reused = torch.empty(COUNT, dtype=dtype, device="openreg:1")
    assert reused.data_ptr() == place
    reused.copy_(other)
    gate.open()
    assert reused.tolist() == [9] * COUNT


def test_many_copies_in_flight_keep_their_order(gate):
    devices = ["openreg:0", "openreg:1"]
    chain = [ready(index, devices[index % 2]) for index in range(20)]
    gate.hold(torch.openreg.default_stream(0))
    for source, target in itertools.pairwise(chain):
        target.copy_(source)
    gate.open()
    assert [x[0].item() for x in chain] == [0.0] * 20


def test_copies_both_ways_at_once_do_not_lock():
    """Each stream waits for the other's past, never for its future."""
    x, y = ready(1, "openreg:0"), ready(2, "openreg:1")
    for _ in range(100):
        there, here = x.to("openreg:1"), y.to("openreg:0")
        x.copy_(there)
        y.copy_(here)
    torch.openreg.synchronize(0)
    torch.openreg.synchronize(1)
    assert x.tolist() == [1.0] * COUNT
    assert y.tolist() == [2.0] * COUNT


# Temporaries


def test_memory_of_a_source_on_the_same_stream_is_reused_in_order(gate):
    y, other = ready(0, "openreg:0"), ready(9, "openreg:0")
    x = ready(5, "openreg:0")
    gate.hold()
    place = x.data_ptr()
    y.copy_(x)
    del x
    reused = torch.empty(COUNT, device="openreg:0")
    assert reused.data_ptr() == place
    reused.copy_(other)
    gate.open()
    assert y.tolist() == [5.0] * COUNT


def test_dropped_pinned_source_is_not_given_out_before_it_was_read(gate):
    y = ready(0, "openreg:0")
    source = torch.full((COUNT,), 5.0, pin_memory=True)
    gate.hold()
    place = source.data_ptr()
    y.copy_(source, non_blocking=True)
    del source
    others = [torch.full((COUNT,), 9.0, pin_memory=True) for _ in range(4)]
    assert place not in {other.data_ptr() for other in others}
    gate.open()
    assert y.tolist() == [5.0] * COUNT


def test_dropped_pinned_destination_is_not_given_out_before_it_was_written(gate):
    x = ready(5, "openreg:0")
    gate.hold()
    target = x.to("cpu", non_blocking=True)
    place = target.data_ptr()
    del target
    others = [torch.full((COUNT,), 9.0, pin_memory=True) for _ in range(4)]
    assert place not in {other.data_ptr() for other in others}
    gate.open()
    torch.openreg.synchronize()
    assert [other.tolist() for other in others] == [[9.0] * COUNT] * 4
