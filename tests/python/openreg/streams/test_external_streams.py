"""Streams that were made with the driver's API, outside of PyTorch."""

import ctypes

import pytest
import torch

from driver import check, library

NON_BLOCKING = 1


class DriverStream:
    """A stream of the driver; ``handle`` is its ``orStream_t`` as a number."""

    def __init__(self, device=0, priority=0):
        made = ctypes.c_void_p()
        with torch.openreg.device(device):
            check(
                library().orStreamCreateWithPriority(
                    ctypes.byref(made), NON_BLOCKING, priority
                )
            )
        self.handle = made.value

    def destroy(self):
        """Give the handle back; what is queued still runs."""
        check(library().orStreamDestroy(ctypes.c_void_p(self.handle)))


@pytest.fixture
def make():
    """Makes driver streams that end with the test."""
    made = []

    def create(*arguments, **keywords):
        made.append(DriverStream(*arguments, **keywords))
        return made[-1].handle

    yield create
    for device in range(2):
        torch.openreg.set_stream(torch.openreg.default_stream(device))
        torch.openreg.synchronize(device)
    for stream in made:
        stream.destroy()


@pytest.mark.parametrize(
    "wrap", [torch.openreg.ExternalStream, torch.openreg.get_stream_from_external]
)
@pytest.mark.parametrize("device", [0, 1])
def test_external_stream_is_the_drivers_stream(make, wrap, device):
    handle = make(device)
    stream = wrap(handle, device)
    assert isinstance(stream, torch.openreg.Stream)
    assert stream.native_handle == handle
    assert stream.device == torch.device("openreg", device)
    assert stream == wrap(handle, f"openreg:{device}")
    assert stream.query()


def test_external_stream_is_of_the_current_device_by_default(make):
    torch.openreg.set_device(1)
    assert torch.openreg.ExternalStream(make(1)).device_index == 1


def test_work_runs_on_the_external_stream(make, gate, watch):
    stream = torch.openreg.ExternalStream(make(1), 1)
    source = torch.ones(4, device="openreg:1")
    target = torch.zeros(4, device="openreg:1")
    gate.hold(stream)
    with stream:
        assert torch.accelerator.current_stream() == stream
        target.copy_(source)
    assert not stream.query()
    assert watch.waits(stream.synchronize)
    gate.open()
    stream.synchronize()
    assert target.tolist() == [1.0] * 4


def test_external_streams_and_pool_streams_wait_for_each_other(make, gate):
    external, pooled = torch.openreg.ExternalStream(make()), torch.Stream("openreg")
    gate.hold(external)
    pooled.wait_stream(external)
    assert not pooled.query()
    gate.open()
    pooled.synchronize()
    assert pooled.query()


def test_priority_of_an_external_stream_is_the_drivers(make):
    greatest = torch.openreg.Stream.priority_range()[1]
    assert torch.openreg.ExternalStream(make(priority=greatest)).priority == greatest
    assert torch.openreg.ExternalStream(make(priority=0)).priority == 0


def test_stream_of_the_pool_may_come_back_as_external():
    stream = torch.openreg.Stream()
    again = torch.openreg.ExternalStream(stream.native_handle)
    assert again.native_handle == stream.native_handle


def test_null_is_the_default_stream():
    for device in range(2):
        stream = torch.openreg.ExternalStream(0, device)
        assert stream == torch.openreg.default_stream(device)


def test_stream_of_another_device_is_refused(make):
    with pytest.raises(RuntimeError, match="belongs to openreg:1, not to openreg:0"):
        torch.openreg.ExternalStream(make(1), 0)


@pytest.mark.parametrize("handle", [1, 0xDEADBEEF, -1])
def test_number_that_is_no_stream_is_refused(handle):
    with pytest.raises(torch.AcceleratorError, match="not a live stream"):
        torch.openreg.ExternalStream(handle)


def test_destroyed_stream_is_an_error_and_the_device_goes_on():
    owner = DriverStream()
    stream = torch.openreg.ExternalStream(owner.handle)
    owner.destroy()
    with pytest.raises(torch.AcceleratorError, match="not a live stream"):
        stream.synchronize()
    assert torch.ones(2, device="openreg").tolist() == [1.0, 1.0]


def test_memory_of_a_destroyed_stream_is_freed():
    owner = DriverStream()
    with torch.openreg.ExternalStream(owner.handle):
        x = torch.zeros(4 << 20, device="openreg")
    torch.openreg.synchronize()
    owner.destroy()
    before = torch.openreg.memory_allocated()
    size = x.nbytes
    del x
    assert torch.openreg.memory_allocated() == before - size
    torch.openreg.empty_cache()


def test_driver_takes_pytorchs_streams_and_events():
    """``ctypes`` passes them as the driver's handles."""
    stream, event = torch.openreg.Stream(1), torch.openreg.Event()
    found = ctypes.c_int(-1)
    check(library().orStreamGetDevice(stream, ctypes.byref(found)))
    assert found.value == 1
    event.record(stream)
    check(library().orEventSynchronize(event))
    check(library().orEventQuery(event))
