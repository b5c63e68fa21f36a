"""Checks and requirements for the tests of a device-agnostic project.

:func:`assert_no_fallback` and :func:`assert_no_sync` are context managers, and
decorators too; :func:`requires` marks a test for pytest. The package's pytest plugin
has the fixtures ``openreg_device`` and ``openreg_devices`` and the options
``--openreg-devices``, ``--openreg-driver`` and ``--openreg-strict``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from torch_openreg import openreg
from torch_openreg.openreg.engine import FallbackReport, FallbackUse

if TYPE_CHECKING:
    import pytest

__all__ = [
    "assert_no_fallback",
    "assert_no_sync",
    "devices",
    "missing_capability",
    "requires",
]

_SYNC_MESSAGE = "called a synchronizing OpenReg operation"
_DRIVERS = ("inprocess", "isolated")


def devices() -> list[torch.device]:
    """Return every device. Initialises nothing."""
    return [torch.device("openreg", n) for n in range(openreg.device_count())]


@contextmanager
def assert_no_fallback() -> Iterator[None]:
    """Fail if an operator within the block runs on the CPU, on copies.

    The block runs to its end, and AssertionError has a table of all such operators;
    :func:`torch.openreg.strict` raises at the first one instead. Counts what other
    threads do as well, since a backward pass runs on threads of its own.
    """
    before = {(use.operator, use.reason): use for use in openreg.fallback_report()}
    yield
    grown = FallbackReport(
        FallbackUse(
            operator=use.operator,
            reason=use.reason,
            count=use.count - (earlier.count if earlier else 0),
            bytes=use.bytes - (earlier.bytes if earlier else 0),
            where=use.where,
        )
        for use in openreg.fallback_report()
        for earlier in [before.get((use.operator, use.reason))]
        if earlier is None or use.count > earlier.count
    )
    if grown:
        raise AssertionError(f"operators ran on the CPU, on copies:\n{grown}")


@contextmanager
def assert_no_sync() -> Iterator[None]:
    """Fail where an operation within the block makes the host wait for a device.

    AssertionError comes from the line that waits: ``item()``, ``nonzero()``, a copy
    to pageable memory, ``Stream.synchronize``. A wait for a whole device or an event is
    what a program asks for by name, and is not refused. Holds for the whole process,
    so tests that use it must not run in threads beside others.
    """
    before = openreg.get_sync_debug_mode()
    openreg.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if _SYNC_MESSAGE not in str(error):
            raise
        raise AssertionError("the host waited for a device") from error
    finally:
        openreg.set_sync_debug_mode(before)


def missing_capability(
    *,
    devices: int = 1,
    memory: int = 0,
    dtype: torch.dtype | None = None,
    driver: str | None = None,
    peer_access: bool = False,
) -> str | None:
    """Return what the devices lack, in words, or None. See :func:`requires`.

    Raises what ``torch.openreg.init()`` raises if the devices cannot start: that is
    no missing capability.
    """
    _check(devices, memory, driver)
    openreg.init()
    count = openreg.device_count()
    if count < devices:
        return f"needs {devices} openreg devices, there are {count}"
    properties = openreg.get_device_properties(0)
    running = _DRIVERS[properties.isolated]
    if driver not in (None, running):
        return f"needs the driver {driver!r}, this is {running!r}"
    if properties.total_memory < memory:
        total = properties.total_memory
        return f"needs {memory:,} bytes of device memory, there are {total:,}"
    if dtype is not None and not _supports(dtype):
        return f"needs {dtype}, which the devices do not support"
    if peer_access and not (count > 1 and openreg.can_device_access_peer(0, 1)):
        return "needs two openreg devices that reach each other's memory"
    return None


def _check(devices: int, memory: int, driver: str | None) -> None:
    """Raise ValueError for a requirement that makes no sense."""
    if devices < 1:
        raise ValueError(f"devices must be at least 1, got {devices}")
    if memory < 0:
        raise ValueError(f"memory must not be negative, got {memory}")
    if driver not in (None, *_DRIVERS):
        known = " or ".join(map(repr, _DRIVERS))
        raise ValueError(f"driver must be {known}, got {driver!r}")


def _supports(dtype: torch.dtype) -> bool:
    capability = torch.accelerator.get_device_capability(devices()[0])
    return dtype in capability["supported_dtypes"]


def requires(
    *,
    devices: int = 1,
    memory: int = 0,
    dtype: torch.dtype | None = None,
    driver: str | None = None,
    peer_access: bool = False,
) -> pytest.MarkDecorator:
    """Return a mark for pytest that skips a test where a capability is missing.

    ``devices``: at least so many; ``memory``: bytes of each device; ``dtype``: one
    that the devices know; ``driver``: ``"inprocess"`` or ``"isolated"``;
    ``peer_access``: between two devices. The question is asked when the test runs, so
    a test that is not selected starts no device. Raises ValueError, at once, for a
    requirement that makes no sense.
    """
    import pytest

    _check(devices, memory, driver)
    return pytest.mark.openreg_requires(
        devices=devices,
        memory=memory,
        dtype=dtype,
        driver=driver,
        peer_access=peer_access,
    )
