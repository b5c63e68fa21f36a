"""DLPack, both ways, in the order of streams; numpy says what to do."""

import ctypes

import numpy
import pytest
import torch
from compare import DEVICE, assert_same, numbers
from torch.utils.dlpack import from_dlpack, to_dlpack

KIND = 12  # kDLExtDev


def test_a_capsule_keeps_memory_shape_strides_and_values():
    x = numbers(3, 4).to(DEVICE)
    for view in (x, x.t(), x[1:, ::2]):
        again = from_dlpack(to_dlpack(view))
        assert again.data_ptr() == view.data_ptr()
        assert again.stride() == view.stride()
        assert torch.equal(again, view)
        assert again.device == view.device


@pytest.mark.parametrize("index", [0, 1])
def test_the_protocol_finds_the_device_by_itself(index: int):
    x = numbers(3).to(f"{DEVICE}:{index}")
    assert x.__dlpack_device__() == (KIND, index)
    again = torch.from_dlpack(x)
    assert again.device == x.device
    again.add_(1)
    assert_same(x, numbers(3) + 1)


def test_a_capsule_keeps_its_memory_alive():
    before = torch.openreg.memory_allocated()
    capsule = to_dlpack(torch.ones(1000, device=DEVICE))
    assert torch.openreg.memory_allocated() > before
    again = from_dlpack(capsule)
    assert again.sum().item() == 1000
    del again, capsule
    assert torch.openreg.memory_allocated() == before


def test_copies_and_other_devices_are_made_if_they_are_asked_for():
    x = numbers(3).to(DEVICE)
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    on_host = torch.from_dlpack(x, device="cpu")
    assert on_host.device.type == "cpu"
    assert torch.equal(on_host, numbers(3))
    assert_same(torch.from_dlpack(numbers(3), device=DEVICE), numbers(3))
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(x, device="cpu", copy=False)


def test_arrays_of_numpy_come_to_the_device():
    array = numpy.arange(3.0)
    assert torch.from_dlpack(array).to(DEVICE).tolist() == [0.0, 1.0, 2.0]
    assert torch.as_tensor(array, device=DEVICE).tolist() == [0.0, 1.0, 2.0]
    assert torch.from_dlpack(array, device=DEVICE).device.type == DEVICE


def test_numpy_is_told_to_copy_first():
    x = torch.ones(2, device=DEVICE)
    text = r"can't convert openreg:0 device type tensor to numpy. Use Tensor.cpu\(\)"
    with pytest.raises(TypeError, match=text):
        x.numpy()
    with pytest.raises(TypeError, match=text):
        numpy.asarray(x)
    with pytest.raises((RuntimeError, BufferError), match="device"):
        numpy.from_dlpack(x)
    assert x.numpy(force=True).tolist() == [1.0, 1.0]
    assert not hasattr(x, "__cuda_array_interface__")


REFUSED = {
    "a tensor that learns": lambda: torch.ones(2, device=DEVICE, requires_grad=True),
    "a conjugate": lambda: torch.ones(2, device=DEVICE, dtype=torch.cfloat).conj(),
    "a sparse tensor": lambda: torch.ones(2, device=DEVICE).to_sparse(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_capsule_cannot_say_is_refused(name: str):
    with pytest.raises(BufferError, match="Can't export"):
        REFUSED[name]().__dlpack__()


def test_the_consumers_stream_waits_for_the_producer(gate):
    producer, consumer = torch.openreg.Stream(), torch.openreg.Stream()
    with torch.openreg.stream(producer):
        x = torch.ones(3, device=DEVICE)
        producer.synchronize()
        gate.hold(producer)
        x.add_(1)
        x.__dlpack__(stream=-1)
        assert consumer.query()
        x.__dlpack__(stream=consumer.native_handle)
        x.__dlpack__(stream=producer.native_handle)
    with torch.openreg.stream(consumer):
        y = x + 1
    assert not consumer.query()
    assert torch.openreg.default_stream().query()
    gate.open()
    consumer.synchronize()
    assert y.tolist() == [3.0] * 3


@pytest.mark.parametrize("number", [None, 1])
def test_the_default_stream_has_numbers_of_its_own(number: int | None, gate):
    side = torch.openreg.Stream()
    gate.hold(side)
    with torch.openreg.stream(side):
        x = torch.ones(3, device=DEVICE)
        x.__dlpack__(stream=number)
    assert not torch.openreg.default_stream().query()


def test_bad_streams_are_refused():
    x = torch.ones(3, device=DEVICE)
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream=torch.openreg.Stream())
    with pytest.raises(BufferError, match="per-thread"):
        x.__dlpack__(stream=2)
    with pytest.raises(AssertionError, match="unsupported stream"):
        x.__dlpack__(stream=0)
    with pytest.raises(RuntimeError):
        x.__dlpack__(stream=12345)


def device_of(capsule: object) -> ctypes.Array[ctypes.c_int32]:
    """Kind and index of the device, where the capsule holds them."""
    find = ctypes.pythonapi.PyCapsule_GetPointer
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = find(capsule, b"dltensor")
    return (ctypes.c_int32 * 2).from_address(address + ctypes.sizeof(ctypes.c_void_p))


def renamed(x: torch.Tensor, kind: int, index: int) -> object:
    """A capsule of ``x`` that says that it is somewhere else."""
    capsule = to_dlpack(x)
    assert list(device_of(capsule)) == list(x.__dlpack_device__())
    device_of(capsule)[:] = [kind, index]
    return capsule


@pytest.mark.parametrize("index", [1, 99, -1])
def test_a_capsule_with_memory_of_another_device_is_refused(index: int):
    x = torch.ones(3, device=DEVICE)
    with pytest.raises(BufferError, match="its memory is on openreg:0"):
        from_dlpack(renamed(x, KIND, index))
    assert (x + 1).tolist() == [2.0] * 3


def test_a_capsule_of_the_hosts_memory_is_not_the_devices():
    with pytest.raises(BufferError, match="its memory is on none"):
        from_dlpack(renamed(torch.ones(3), KIND, 0))


def test_a_capsule_of_the_devices_memory_is_not_the_hosts():
    x = torch.ones(3, device=DEVICE)
    with pytest.raises(BufferError, match="names cpu, and its memory is on openreg:0"):
        from_dlpack(renamed(x, 1, 0))
    assert (x + 1).tolist() == [2.0] * 3


@pytest.mark.parametrize("make", [lambda: torch.ones(3), lambda: numbers(3).to(DEVICE)])
@pytest.mark.parametrize("kind", [2, 4, 8, 10, 14, 17])
def test_a_kind_of_device_that_the_machine_has_not_is_refused(kind: int, make):
    """PyTorch knows their names, and raises what it likes, or crashes."""
    x = make()
    with pytest.raises(BufferError, match=rf"a device of kind {kind} \(kDL\w+\)"):
        from_dlpack(renamed(x, kind, 0))
    with pytest.raises(BufferError, match=rf"a device of kind {kind} \(kDL\w+\)"):
        torch.from_dlpack(renamed(x, kind, 0))
    assert (x + 1).shape == (3,)


def test_what_is_no_capsule_is_refused():
    capsule = to_dlpack(torch.ones(3))
    from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="consume"):
        from_dlpack(capsule)
    with pytest.raises((RuntimeError, TypeError)):
        from_dlpack(object())


def test_an_unknown_kind_of_device_is_refused():
    x = torch.ones(3, device=DEVICE)
    with pytest.raises(BufferError, match="Unsupported device_type: 99"):
        from_dlpack(renamed(x, 99, 0))
    with pytest.raises(BufferError, match="Unsupported device_type: 99"):
        x.__dlpack__(dl_device=(99, 0))
    assert (x + 1).tolist() == [2.0] * 3


def test_a_refused_capsule_is_not_used_up():
    x = torch.ones(3, device=DEVICE)
    capsule = renamed(x, 99, 0)
    with pytest.raises(BufferError):
        from_dlpack(capsule)
    device_of(capsule)[:] = list(x.__dlpack_device__())
    assert from_dlpack(capsule).data_ptr() == x.data_ptr()


def test_a_device_that_does_not_exist_gets_no_tensor():
    x, used = torch.ones(3), torch.openreg.memory_allocated()
    with pytest.raises(torch.AcceleratorError, match="but got 99"):
        torch.from_dlpack(x, device=f"{DEVICE}:99")
    assert torch.openreg.memory_allocated() == used
