"""The driver's testing API, as far as the tests need it."""

import ctypes
from functools import cache

import torch

import torch_openreg


@cache
def library() -> ctypes.CDLL:
    """The driver that the backend uses: loading it again gives the same one."""
    return ctypes.CDLL(str(torch_openreg.library_path()))


def check(code: int) -> None:
    """Raise for a failed call, with the driver's message."""
    if code != 0:
        message = library().orGetLastErrorMessage
        message.restype = ctypes.c_char_p
        raise RuntimeError(message().decode())


class Counters(ctypes.Structure):
    """``orTestingCounters`` of ``openreg/testing.h``."""

    _fields_ = (
        ("live_streams", ctypes.c_size_t),
        ("live_events", ctypes.c_size_t),
        ("live_modules", ctypes.c_size_t),
        ("live_allocations", ctypes.c_size_t),
        ("live_host_allocations", ctypes.c_size_t),
        ("worker_threads", ctypes.c_size_t),
        ("open_devices", ctypes.c_size_t),
        ("system_calls", ctypes.c_uint64),
        ("queue_chunks", ctypes.c_uint64),
        ("device_waits", ctypes.c_uint64),
        ("staged_bytes", ctypes.c_uint64),
    )


def counters() -> Counters:
    """What the driver holds right now."""
    result = Counters()
    check(library().orTestingGetCounters(ctypes.byref(result)))
    return result


class Gate:
    """A stop sign on streams: none passes it before the test opens it."""

    def __init__(self) -> None:
        self._gate = ctypes.c_void_p()
        check(library().orTestingGateCreate(ctypes.byref(self._gate)))

    def hold(self, stream: torch.Stream | None = None) -> None:
        """Hold ``stream`` back, or the current stream."""
        stream = stream or torch.accelerator.current_stream()
        with torch.openreg.device(stream.device_index):
            handle = ctypes.c_void_p(stream.native_handle)
            check(library().orTestingGateHold(self._gate, handle, 0))

    def await_holds(self, count: int = 1) -> None:
        """Wait until that many streams stand at the gate, all before it done."""
        check(library().orTestingGateAwait(self._gate, count))

    def open(self) -> None:
        """Let every stream pass, now and later."""
        check(library().orTestingGateOpen(self._gate))

    def destroy(self) -> None:
        """Open the gate and free it; waits for all devices."""
        check(library().orTestingGateDestroy(self._gate))


class _FailArgs(ctypes.Structure):
    """``orTestingFailArgs`` of ``openreg/testing.h``."""

    _fields_ = (("code", ctypes.c_int), ("message", ctypes.c_char * 60))


def fail(stream: torch.Stream, message: str = "a test's failure") -> None:
    """Queue a kernel on ``stream`` that fails with orErrorLaunchFailure."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    arguments = _FailArgs(8, message.encode())
    with torch.openreg.device(stream.device_index):
        check(library().orModuleGetBuiltin(ctypes.byref(module)))
        check(library().orModuleGetFunction(ctypes.byref(function), module, b"fail"))
        check(
            library().orLaunchKernel(
                function,
                ctypes.byref(arguments),
                ctypes.c_size_t(ctypes.sizeof(arguments)),
                ctypes.c_void_p(stream.native_handle),
            )
        )
