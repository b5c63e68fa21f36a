"""Devices: how many there are, which one is current, what they can do."""

from dataclasses import dataclass
from typing import Any

from torch.types import Device

from torch_openreg import _C
from torch_openreg._C import _DeviceProperties
from torch_openreg.openreg._lazy import _lazy_init
from torch_openreg.openreg._utils import _get_device_index

__all__ = [
    "DeviceProcess",
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_bf16_supported",
    "is_tf32_supported",
    "process_info",
    "reset_device",
    "set_device",
    "synchronize",
]


def device_count() -> int:
    """Return the number of devices; 0 if the driver cannot start.

    Initialises nothing. ``init()`` says what is wrong with the driver.
    """
    return _C._get_device_count()


def is_available() -> bool:
    """Return whether there is a device. Initialises nothing."""
    return device_count() > 0


def current_device() -> int:
    """Return the index of the calling thread's current device."""
    _lazy_init()
    return _C._get_device()


def set_device(device: Device) -> None:
    """Make ``device`` current for the calling thread; a negative index does nothing.

    Raises torch.AcceleratorError if it does not exist. Prefer :class:`device`,
    which restores the one before.
    """
    index = _get_device_index(device)
    if index >= 0:
        _lazy_init()
        _C._set_device(index)


def _exchange_device(device: int) -> int:
    """Make ``device`` current and return the one before; -1 if it is negative."""
    if device < 0:
        return -1
    _lazy_init()
    return _C._exchange_device(device)


def _maybe_exchange_device(device: int) -> int:
    """Do the same; with this driver, making a device current creates nothing."""
    if device < 0:
        return -1
    _lazy_init()
    return _C._maybe_exchange_device(device)


class device:  # noqa: N801 (the name is torch.cuda's)
    """Context manager that makes a device current and restores the one before.

    Takes an index, a string or a torch.device; a negative index and None change
    nothing.
    """

    def __init__(self, device: Any) -> None:
        """Choose ``device``; nothing changes before the block is entered."""
        self.idx = _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        """Make the device current."""
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *exc_info: object) -> None:
        """Make the device before current again."""
        self.idx = _maybe_exchange_device(self.prev_idx)


class device_of(device):  # noqa: N801 (the name is torch.cuda's)
    """Context manager that makes the device of a tensor or storage current.

    Changes nothing if that is not a device of OpenReg.
    """

    def __init__(self, obj: Any) -> None:
        """Choose the device of ``obj``."""
        on_openreg = obj.device.type == "openreg"
        super().__init__(obj.get_device() if on_openreg else -1)


def get_device_properties(device: Device = None) -> _DeviceProperties:
    """Return what ``device`` is: name, memory, cores and more.

    Raises AssertionError if it does not exist, as ``torch.cuda`` does.
    """
    _lazy_init()
    index = _get_device_index(device, optional=True)
    if not 0 <= index < device_count():
        raise AssertionError(f"Invalid device id {index}")
    return _C._get_device_properties(index)


def get_device_name(device: Device = None) -> str:
    """Return the name of ``device``."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """Return the compute capability of ``device``, major and minor."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Return whether ``device`` can use the memory of ``peer_device``.

    Raises AssertionError if one of them does not exist.
    """
    _lazy_init()
    index = _get_device_index(device, optional=True)
    peer = _get_device_index(peer_device)
    if not 0 <= index < device_count():
        raise AssertionError(f"Invalid device id {index}")
    if not 0 <= peer < device_count():
        raise AssertionError(f"Invalid peer device id {peer}")
    return _C._can_device_access_peer(index, peer)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the device computes with torch.bfloat16: always true.

    The CPU's kernels do the work, so nothing is emulated that the CPU would not.
    """
    return True


def is_tf32_supported() -> bool:
    """Return whether the device has the format TF32: it does not, as the CPU."""
    return False


@dataclass(frozen=True)
class DeviceProcess:
    """How a device is doing at the moment; see :func:`process_info`."""

    driver: str
    """``inprocess`` or ``isolated``, as ``OPENREG_DRIVER`` says."""
    is_open: bool
    """Whether the device was used; if not, nothing below is known."""
    pid: int
    """The process that runs its kernels; 0 if that has ended."""
    resident_memory: int
    """Bytes of memory that this process takes."""
    threads: int
    """Threads of this process."""
    streams: int
    """Streams of the device, the default one included."""
    queued_commands: int
    """What was given to them and is not done."""
    memory_used: int
    """Bytes of device memory that are allocated, the allocator's cache included."""
    memory_limit: int
    """Bytes that can be."""
    life: int
    """1 before the first reset, then one more with each."""


def process_info(device: Device = None) -> DeviceProcess:
    """Return which process ``device`` is and what it holds.

    Never waits, and starts no device. ``python -m torch_openreg info`` prints it.
    Raises torch.AcceleratorError if the device does not exist.
    """
    _lazy_init()
    index = _get_device_index(device, optional=True)
    return DeviceProcess(**_C._device_process_info(index))


def reset_device(device: Device = None) -> None:
    """Bring ``device`` back to its first state, also one that is broken or lost.

    Drops its queued work and frees all of its memory. Tensors and events of before
    are refused from then on; new ones work. Its streams go on empty, its generators
    from the state that they were given last. No other thread may use the device
    meanwhile. Raises torch.AcceleratorError if it does not exist.
    """
    _lazy_init()
    _C._reset_device(_get_device_index(device, optional=True))


def synchronize(device: Device = None) -> None:
    """Wait for all work of ``device``, on every stream.

    Raises torch.AcceleratorError if some of it has failed.
    """
    _lazy_init()
    _C._synchronize(_get_device_index(device, optional=True))
