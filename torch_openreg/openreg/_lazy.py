"""Initialisation at the first use, as ``torch.cuda`` has it.

Importing PyTorch must stay cheap, and a process that forks must not have touched
the device. So nothing happens until a device is used; what cannot wait to be said
until then, a seed above all, is queued.
"""

import atexit
import contextlib
import os
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch_openreg import _C, info

__all__ = ["init", "is_initialized"]


class _QueuedCall(NamedTuple):
    function: Callable[[], None]
    # A call with a key replaces the queued ones whose keys begin with it.
    key: str
    stack: traceback.StackSummary


_initialized = False
_lock = threading.RLock()
_queue: list[_QueuedCall] = []  # guarded by _lock
_running = threading.local()  # has `queue` while this thread runs the queue


def _is_in_bad_fork() -> bool:
    """Return whether this process was forked from one that had used a device."""
    return _C._is_in_bad_fork()


def is_initialized() -> bool:
    """Return whether a device was used, so that PyTorch's OpenReg state exists."""
    return _initialized and not _C._is_in_bad_fork()


def init() -> None:
    """Initialise PyTorch's OpenReg state. Does nothing the second time.

    There is no need to call this: the first use of a device does. Raises
    RuntimeError in a forked child of a process that has done so before, and
    torch.AcceleratorError, saying which, for a bad ``OPENREG_*`` variable.
    """
    _lazy_init()


def _lazy_init() -> None:
    """Initialise; PyTorch calls this before the first tensor is made."""
    global _initialized
    if is_initialized() or hasattr(_running, "queue"):
        return
    with _lock:
        if is_initialized():
            return
        if _C._is_in_bad_fork():
            raise RuntimeError(
                "Cannot re-initialize OpenReg in forked subprocess. To use OpenReg "
                "with multiprocessing, you must use the 'spawn' start method"
            )
        _C._init()
        try:
            _run_queue()
        finally:
            _initialized = True
    for warning in info.misspelled(os.environ):
        warnings.warn(warning, stacklevel=2)


def _run_queue() -> None:
    """Make the queued calls, all of them, and report the first that failed."""
    calls = _queue.copy()
    _queue.clear()
    failures: list[tuple[Exception, _QueuedCall]] = []
    _running.queue = True
    try:
        for call in calls:
            try:
                call.function()
            except Exception as failure:
                failures.append((failure, call))
    finally:
        del _running.queue
    if failures:
        error, call = failures[0]
        raise RuntimeError(
            f"A call that waited for OpenReg's initialisation failed: {error}\n"
            f"It was made here:\n{''.join(call.stack.format())}"
        ) from error


def _lazy_call(function: Callable[[], None], *, key: str = "") -> None:
    """Call ``function`` now or, before the initialisation, right after it.

    A ``key`` keeps the queue short: the call replaces those whose keys begin with
    it, because it undoes what they do.
    """
    if is_initialized() or hasattr(_running, "queue"):
        function()
        return
    with _lock:
        if is_initialized():
            function()
            return
        if key:
            _queue[:] = [call for call in _queue if not call.key.startswith(key)]
        # Without the source lines, which cost a file access each.
        stack = traceback.StackSummary.extract(
            traceback.walk_stack(None), lookup_lines=False
        )
        stack.reverse()
        _queue.append(_QueuedCall(function, key, stack))


def _take_queue() -> list[_QueuedCall]:
    """Empty the queue, and return what was in it."""
    with _lock:
        calls = _queue.copy()
        _queue.clear()
    return calls


def _put_queue(calls: list[_QueuedCall]) -> None:
    """Let the queue hold these calls and no others."""
    with _lock:
        _queue[:] = calls


def _forget_lock() -> None:
    """Make a new lock: in a forked child nobody opens the one of the parent."""
    global _lock
    _lock = threading.RLock()


def _has_autograd_threads() -> bool:
    """Return whether PyTorch's autograd has threads: a backward pass was made."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if (thread / "comm").read_text().startswith("pt_autograd"):
                return True
    return False


def _finish_autograd() -> None:
    """Wait until the autograd threads are done: Python must not end before."""
    _C._prepare_for_threads_at_the_end()
    if is_initialized() and _has_autograd_threads():
        _C._finish_autograd()


os.register_at_fork(after_in_child=_forget_lock)
atexit.register(_finish_autograd)
