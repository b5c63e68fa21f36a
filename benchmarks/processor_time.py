"""How long processors have worked for this process and for its device.

The clock of a whole process does not do: Linux brings the time of a thread that runs
on another processor up to date at its next tick, up to 4 ms later, and what a device
has just computed would be missing. The clock of a single thread is exact. Those of
another process's threads can't be read, so that process is read when they sleep.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

AT_REST = 1e-3  # seconds: by then a device's process has stopped looking for work


def list_threads() -> list[int]:
    """Return the threads of this process."""
    return [int(entry.name) for entry in Path("/proc/self/task").iterdir()]


def read_threads(threads: list[int]) -> dict[int, int]:
    """Return the nanoseconds that each has worked, but not of those that have ended."""
    times = {}
    for thread in threads:
        try:
            # The clock is pthread_getcpuclockid()'s.
            times[thread] = time.clock_gettime_ns((~thread << 3) | 6)
        except OSError:
            continue
    return times


def read_device_process() -> int:
    """Return the nanoseconds of the process of device 0, if it has one."""
    info = torch.openreg.process_info(0)  # type: ignore[attr-defined]
    if info.driver != "isolated" or not info.pid:
        return 0
    time.sleep(AT_REST)
    # The clock is clock_getcpuclockid()'s.
    return time.clock_gettime_ns((~info.pid << 3) | 2)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


class Stopwatch:
    """Measures the processor time of everything from its making on."""

    def __init__(self, device: torch.device) -> None:
        """Start when `device` is idle."""
        synchronize(device)
        self._device = device
        self._elsewhere = read_device_process()
        self._threads = read_threads(list_threads())

    def stop(self) -> int:
        """Return the nanoseconds until `device` is idle again."""
        synchronize(self._device)
        # The old ones first: listing the new ones takes time, too.
        used = read_threads(list(self._threads))
        used |= read_threads([new for new in list_threads() if new not in used])
        here = sum(
            spent - self._threads.get(thread, 0) for thread, spent in used.items()
        )
        return here + read_device_process() - self._elsewhere
