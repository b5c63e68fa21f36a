"""Device memory, as PyTorch's allocator for it sees it; pinned memory too.

The allocator keeps freed memory for the next tensor: "allocated" is what tensors
have, "reserved" is that and what is kept.
"""

import contextlib
import pickle
import sys
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch.types import Device

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init, is_initialized
from torch_openreg.openreg._memory_table import render_table
from torch_openreg.openreg._utils import _get_device_index
from torch_openreg.openreg.devices import current_device
from torch_openreg.openreg.streams import (
    _pack,
    current_stream,
    get_stream_from_external,
)

__all__ = [
    "MemPool",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


def caching_allocator_alloc(
    size: int, device: Device = None, stream: torch.Stream | int | None = None
) -> int:
    """Allocate ``size`` bytes for ``stream`` of ``device`` and return the address.

    A stream can be given as the driver's ``orStream_t``; it is the current one by
    default. Free the memory with :func:`caching_allocator_delete`.
    """
    index = _get_device_index(device, optional=True)
    if stream is None:
        stream = current_stream(index)
    elif isinstance(stream, int):
        stream = get_stream_from_external(stream, index)
    if not isinstance(stream, torch.Stream):
        raise TypeError(
            "Invalid type for stream argument, must be `torch.openreg.Stream` or "
            "`int` representing a pointer to an existing stream"
        )
    if stream.device_index != index:
        raise ValueError(f"The stream is of {stream.device}, not of openreg:{index}")
    return _C._caching_allocator_raw_alloc(size, _pack(stream))


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free what :func:`caching_allocator_alloc` has returned."""
    _C._caching_allocator_raw_delete(mem_ptr)


def get_allocator_backend() -> str:
    """Return the name of the allocator; there is one, "native"."""
    return "native"


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Let this process reserve at most ``fraction`` of the memory of ``device``.

    An allocation beyond that raises torch.OutOfMemoryError.
    """
    _lazy_init()
    index = _get_device_index(device, optional=True)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _C._set_memory_fraction(fraction, index)


def get_per_process_memory_fraction(device: Device = None) -> float:
    """Return the fraction of its memory that ``device`` lends to this process."""
    _lazy_init()
    return _C._get_memory_fraction(_get_device_index(device, optional=True))


def empty_cache() -> None:
    """Give reserved memory that no tensor has back to the devices."""
    if is_initialized():
        _C._empty_cache()


def _flatten(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Give the leaves of nested dictionaries, named by the keys that lead there."""
    if not isinstance(value, dict):
        yield prefix, value
        return
    for key, item in value.items():
        # Memory pools are named by pairs.
        name = "_".join(map(str, key)) if isinstance(key, tuple) else str(key)
        yield from _flatten(f"{prefix}.{name}" if prefix else name, item)


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Return the statistics of the allocator for ``device``, by name.

    Most names have the form ``allocated_bytes.all.current``, with

    - what: ``allocation``, ``allocated_bytes``, ``requested_bytes``, ``segment``,
      ``reserved_bytes``, ``active``, ``active_bytes``, ``inactive_split`` or
      ``inactive_split_bytes``,
    - where: ``all``, ``small_pool`` or ``large_pool`` (more than 1 MiB),
    - which: ``current``, ``peak``, ``allocated`` or ``freed`` (sums over time).

    The others count events: ``num_alloc_retries``, ``num_ooms``,
    ``num_device_alloc``, ``num_device_free``, ``num_sync_all_streams`` and more.
    The names are those of ``torch.cuda.memory_stats``. Empty before the first use
    of a device.
    """
    return OrderedDict(sorted(_flatten("", memory_stats_as_nested_dict(device))))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """Return :func:`memory_stats` as nested dictionaries."""
    if not is_initialized():
        return {}
    return _C._memory_stats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Set the sums over time and the counts of events to 0."""
    _C._reset_accumulated_memory_stats(_get_device_index(device, optional=True))


def reset_peak_memory_stats(device: Device = None) -> None:
    """Let the peaks start again from the current values."""
    _C._reset_peak_memory_stats(_get_device_index(device, optional=True))


def reset_max_memory_allocated(device: Device = None) -> None:
    """Do what :func:`reset_peak_memory_stats` does, with a warning, as CUDA does."""
    warnings.warn(
        "torch.openreg.reset_max_memory_allocated calls "
        "torch.openreg.reset_peak_memory_stats, which resets all peaks.",
        FutureWarning,
        stacklevel=2,
    )
    reset_peak_memory_stats(device)


def host_memory_stats() -> dict[str, Any]:
    """Return the statistics of the allocator of pinned memory, by name.

    ``allocations`` and ``allocated_bytes`` count what it has, ``active_requests``
    and ``active_bytes`` what is in use, each ``current``, ``peak``, ``allocated``
    and ``freed``; ``num_host_alloc`` and ``num_host_free`` count calls of the
    driver, ``host_alloc_time`` and ``host_free_time`` their microseconds.
    """
    return OrderedDict(sorted(_flatten("", host_memory_stats_as_nested_dict())))


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Return :func:`host_memory_stats` as nested dictionaries."""
    return _C._host_memory_stats() if is_initialized() else {}


def reset_accumulated_host_memory_stats() -> None:
    """Set the sums over time of pinned memory to 0."""
    _C._reset_accumulated_host_memory_stats()


def reset_peak_host_memory_stats() -> None:
    """Let the peaks of pinned memory start again from the current values."""
    _C._reset_peak_host_memory_stats()


def _stat(device: Device, name: str, which: str) -> int:
    stats = memory_stats_as_nested_dict(device)
    return stats[name]["all"][which] if stats else 0


def memory_allocated(device: Device = None) -> int:
    """Return the bytes that tensors on ``device`` have."""
    return _stat(device, "allocated_bytes", "current")


def max_memory_allocated(device: Device = None) -> int:
    """Return the most bytes that tensors on ``device`` had at a time.

    Counts from the start or the latest :func:`reset_peak_memory_stats`.
    """
    return _stat(device, "allocated_bytes", "peak")


def memory_reserved(device: Device = None) -> int:
    """Return the bytes of ``device`` that the allocator has, used or not."""
    return _stat(device, "reserved_bytes", "current")


def max_memory_reserved(device: Device = None) -> int:
    """Return the most bytes of ``device`` that the allocator had at a time.

    Counts from the start or the latest :func:`reset_peak_memory_stats`.
    """
    return _stat(device, "reserved_bytes", "peak")


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Return the free and the total bytes of ``device``, as the driver counts."""
    _lazy_init()
    return _C._mem_get_info(_get_device_index(device, optional=True))


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """Return the statistics of the allocator as a table for people.

    An abbreviated table does not separate small allocations from large ones.
    """
    index = _get_device_index(device, optional=True)
    return render_table(index, memory_stats(index), abbreviated)


def memory_snapshot(
    mempool_id: tuple[int, int] | None = None, include_traces: bool = True
) -> list[dict[str, Any]]:
    """Return the segments of the allocator on all devices, with their blocks.

    ``mempool_id`` chooses those of one :class:`MemPool`; ``(0, 0)``, which is the
    id of none, stands for all. ``include_traces`` makes no difference: the segments
    hold none.
    """
    segments: list[dict[str, Any]] = _C._memory_snapshot(False)["segments"]
    if mempool_id is None or tuple(mempool_id) == (0, 0):
        return segments
    chosen = tuple(mempool_id)
    return [item for item in segments if item["segment_pool_id"] == chosen]


class MemPool(_C._MemPool):
    """A part of the device memory for those who ask for it by :func:`use_mem_pool`.

    It has segments of its own on each device: what was allocated in it returns to it
    and to nobody else. It keeps them until it is deleted, whatever
    :func:`empty_cache` is called; what tensors still use then goes back to the device
    with a call of that after their end. Statistics count its memory in.

    With ``use_on_oom`` its unused memory also serves an allocation outside all pools
    that would fail for lack of memory. With ``no_split`` each segment serves one
    tensor at a time, however small. ``allocator`` is there because
    ``torch.cuda.MemPool`` has it, and must be None.
    """

    def __init__(
        self, allocator: None = None, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        """Create a pool without any memory."""
        if allocator is not None:
            raise NotImplementedError(
                "torch.openreg.MemPool takes no allocator: device memory comes from "
                "the OpenReg driver alone"
            )
        _lazy_init()
        super().__init__(use_on_oom, no_split)

    @property
    def id(self) -> tuple[int, int]:
        """The name of the pool in snapshots and statistics."""
        return super().id

    def use_count(self) -> int:
        """Return 1, and 1 more for each :func:`use_mem_pool` that is under way."""
        return super().use_count()

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """Return its segments on all devices, as :func:`memory_snapshot`."""
        return memory_snapshot(self.id, include_traces)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None) -> Iterator[None]:
    """Take what the calling thread allocates on ``device`` from ``pool``.

    The innermost pool counts. Other threads, those that this one starts and those of
    a backward pass included, are not concerned.
    """
    index = current_device() if device is None else _get_device_index(device)
    scope = _C._use_mem_pool(pool, index)
    try:
        yield
    finally:
        scope.leave()


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Device = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: list[str] | None = None,
) -> None:
    """Keep where memory was allocated, for :func:`_snapshot`.

    ``enabled`` is None (off), "state" (of live memory) or "all" (with the latest
    ``max_entries`` actions of the allocator). ``context`` says which get a stack:
    None, "state", "alloc" or "all". ``stacks`` is "python" or "all" (with C++).
    Actions in ``skip_actions`` are left out of snapshots. The other arguments are
    there because ``torch.cuda`` has them: all devices are recorded.
    """
    _C._record_memory_history(
        enabled, context, stacks, max_entries, clear_history, skip_actions or []
    )


def _snapshot(
    device: Device = None, augment_with_fx_traces: bool = False
) -> dict[str, Any]:
    """Return the state of the allocator and its history, in the format of CUDA's.

    PyTorch's memory viewer opens it once it is pickled, see
    :func:`_dump_snapshot`. ``device`` makes no difference: all are in it.
    """
    snapshot = _C._memory_snapshot(True)
    if augment_with_fx_traces:
        # Changes the snapshot in place.
        torch._utils._augment_memory_snapshot_stack_traces(cast("Any", snapshot))
    return snapshot


def _dump_snapshot(
    filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False
) -> None:
    """Write :func:`_snapshot` to a file that pytorch.org/memory_viz opens."""
    snapshot = _snapshot(augment_with_fx_traces=augment_with_fx_traces)
    with Path(filename).open("wb") as file:
        pickle.dump(snapshot, file)
