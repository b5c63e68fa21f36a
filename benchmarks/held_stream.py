"""A stream that is held back, so that launches queue up behind it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

import torch_openreg


@cache
def _driver() -> ctypes.CDLL:
    """Return the driver that the backend uses: loading it again gives the same."""
    return ctypes.CDLL(str(torch_openreg.library_path()))


def _check(code: int) -> None:
    if code != 0:
        raise RuntimeError(f"the driver's gate fails with code {code}")


@contextmanager
def held_stream() -> Iterator[None]:
    """Hold the current stream while the block runs; wait for its work after that.

    All work that was queued before is done when the block begins.
    """
    stream = torch.accelerator.current_stream()
    handle = ctypes.c_void_p(stream.native_handle)  # type: ignore[attr-defined]
    gate = ctypes.c_void_p()
    _check(_driver().orTestingGateCreate(ctypes.byref(gate)))
    try:
        _check(_driver().orTestingGateHold(gate, handle, 0))
        _check(_driver().orTestingGateAwait(gate, 1))
        yield
    finally:
        _check(_driver().orTestingGateDestroy(gate))  # opens it, and waits
