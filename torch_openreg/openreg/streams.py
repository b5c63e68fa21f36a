"""Streams and events, with the methods of ``torch.cuda.Stream`` and ``Event``."""

import ctypes
from typing import Self

import torch
from torch.types import Device

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init, is_initialized
from torch_openreg.openreg._missing import NO_GRAPHS
from torch_openreg.openreg._utils import _get_device_index
from torch_openreg.openreg.devices import get_device_properties

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "get_stream_from_external",
    "is_current_stream_capturing",
    "set_stream",
    "stream",
]

_NO_IPC = (
    "OpenReg events cannot be shared between processes: an event lives in the "
    "process that made it. Synchronize with the event, then tell the other process. "
    'See docs/troubleshooting.md under "An event is shared between processes".'
)


class Stream(torch.Stream):
    """A queue of work that a device runs in order, beside its other streams.

    ``device`` is the current one by default. ``priority`` is 0 or negative; a lower
    number goes first where the device has more work than room, and one outside of
    ``priority_range()`` is brought into it. Streams come from a pool: after 32 of
    the same device and priority, the first is given out again.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: int) -> Self:
        """Take a stream from the pool, or the one that ``stream_id`` names."""
        _lazy_init()
        if kwargs:
            return super().__new__(cls, **kwargs)
        index = _get_device_index(device, optional=True)
        if index < 0:
            index = _C._get_device()
        place = torch.device("openreg", index)
        return super().__new__(cls, place, priority=priority)

    @property
    def priority(self) -> int:
        """The priority, after it was brought into range."""
        return _C._get_stream_priority(_pack(self))

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the numbers of the lowest (0) and the highest priority."""
        return _C._stream_priority_range()

    def wait_event(self, event: torch.Event) -> None:
        """Make later work on this stream wait for ``event``. Does not block."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Make later work on this stream wait for what ``stream`` has now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record ``event``, or a new one, behind the work so far and return it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Return whether all work on this stream is done."""
        return super().query()

    def synchronize(self) -> None:
        """Wait until all work on this stream is done."""
        super().synchronize()

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """What ctypes passes to the driver's functions for this stream."""
        return ctypes.c_void_p(self.native_handle)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        """Name the device and the driver's stream."""
        handle: int = self.native_handle  # type: ignore[attr-defined]
        return f"<torch.openreg.Stream device={self.device} openreg_stream={handle:#x}>"


class ExternalStream(Stream):
    """A stream that was made with the driver's API and stays its owner's.

    ``stream_ptr`` is the ``orStream_t`` as a number. The owner keeps it alive for
    as long as PyTorch uses it.
    """

    def __new__(cls, stream_ptr: int, device: Device = None, **kwargs: int) -> Self:
        """Wrap ``stream_ptr``, a stream of ``device``."""
        _lazy_init()
        index = _get_device_index(device, optional=True)
        return super().__new__(
            cls, **_names(_C._get_external_stream(stream_ptr, index))
        )


class Event(torch.Event):
    """A mark in a stream, to wait for it or to measure time between two of them.

    Reading times needs ``enable_timing``. ``blocking`` makes no difference here:
    who waits for an event does not spin. ``interprocess`` and ``external`` are
    not supported.
    """

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Self:
        """Make an event; it belongs to the device that first records it."""
        if interprocess:
            raise NotImplementedError(_NO_IPC)
        if external:
            raise NotImplementedError(f"External events are for graphs. {NO_GRAPHS}")
        return super().__new__(
            cls, "openreg", enable_timing=enable_timing, blocking=blocking
        )

    @classmethod
    def from_ipc_handle(cls, device: Device, handle: bytes) -> Self:
        """Raise NotImplementedError: no process has a handle to give."""
        raise NotImplementedError(_NO_IPC)

    @property
    def device(self) -> torch.device | None:  # type: ignore[override]
        """The device that recorded the event, None before that."""
        place = super().device
        return None if place.index is None else place

    def record(self, stream: torch.Stream | None = None) -> None:
        """Record behind the work so far of ``stream``, by default the current one."""
        # Not left to torch.Event, which takes the stream of the event's device.
        super().record(current_stream() if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Make later work on ``stream``, by default the current one, wait for this."""
        super().wait(current_stream() if stream is None else stream)

    def query(self) -> bool:
        """Return whether the work before the latest record is done."""
        return super().query()

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Return the milliseconds from this event to ``end_event``.

        Raises ValueError if one of them has no timing or was not recorded.
        """
        return _C._event_elapsed_time(self, end_event)

    def synchronize(self) -> None:
        """Wait until the work before the latest record is done."""
        super().synchronize()

    def ipc_handle(self) -> bytes:
        """Raise NotImplementedError: an event cannot leave its process."""
        raise NotImplementedError(_NO_IPC)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """What ctypes passes to the driver's functions for this event."""
        return ctypes.c_void_p(self.event_id)

    def __repr__(self) -> str:
        """Name the driver's event, if there is one yet."""
        if self.event_id == 0:
            return "<torch.openreg.Event uninitialized>"
        return f"<torch.openreg.Event {self.event_id:#x}>"


def _pack(stream: torch.Stream) -> tuple[int, int, int]:
    return stream.stream_id, stream.device_index, stream.device_type


def _names(packed: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("stream_id", "device_index", "device_type"), packed, strict=True))


def current_stream(device: Device = None) -> Stream:
    """Return the calling thread's current stream of ``device``."""
    _lazy_init()
    index = _get_device_index(device, optional=True)
    return Stream(**_names(_C._get_current_stream(index)))


def default_stream(device: Device = None) -> Stream:
    """Return the default stream of ``device``, the one with the number 0."""
    _lazy_init()
    index = _get_device_index(device, optional=True)
    return Stream(**_names(_C._get_default_stream(index)))


def get_stream_from_external(data_ptr: int, device: Device = None) -> Stream:
    """Return the stream of ``device`` whose ``orStream_t`` is ``data_ptr``.

    It was made with the driver's API and stays its owner's.
    """
    _lazy_init()
    index = _get_device_index(device, optional=True)
    return Stream(**_names(_C._get_external_stream(data_ptr, index)))


def set_stream(stream: torch.Stream | None) -> None:
    """Make ``stream`` and its device current; None does nothing.

    Prefer :func:`stream`, which restores what was before.
    """
    if stream is not None:
        _lazy_init()
        _C._set_stream(_pack(stream))


class StreamContext:
    """Context manager that makes a stream and its device current.

    Restores the stream that was current on that device, and the device, at the
    end. None changes nothing.
    """

    def __init__(self, stream: torch.Stream | None) -> None:
        """Choose ``stream``; nothing changes before the block is entered."""
        self.stream = stream
        self._before: tuple[Stream, Stream] | None = None

    def __enter__(self) -> None:
        """Make the stream current."""
        if self.stream is not None:
            self._before = current_stream(), current_stream(self.stream.device)
            set_stream(self.stream)

    def __exit__(self, *exc_info: object) -> None:
        """Restore what was current."""
        if self._before is not None:
            here, there = self._before
            set_stream(there)
            set_stream(here)
            self._before = None


def stream(stream: torch.Stream | None) -> StreamContext:
    """Return a context manager that makes ``stream`` current, or nothing for None."""
    return StreamContext(stream)


def is_current_stream_capturing() -> bool:
    """Return whether the current stream records a graph."""
    return is_initialized() and current_stream().is_capturing()


def _sleep(cycles: int) -> None:
    """Queue a kernel on the current stream that takes that many cycles of its clock.

    PyTorch's tests call it, to have a stream that is busy.
    """
    kilohertz = get_device_properties().clock_rate
    _C._keep_busy(cycles * 1_000_000 // kilohertz)
