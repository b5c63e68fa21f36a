"""Refuses to send device tensors to another process, where they are sent.

The memory of a device belongs to one process. ``torch.multiprocessing`` would find out
while it pickles a tensor, which a queue leaves to a thread of its own: that prints the
error, and the receiver waits for ever.
"""

import dataclasses
import functools
import types
from collections import deque
from collections.abc import Callable, Iterable
from functools import wraps
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from torch_openreg._on_import import patch_on_import
from torch_openreg.openreg._lazy import _lazy_call, is_initialized

# The types that are pickled by their memory, and how. Other tensors, those of
# subclasses, are pickled by their values.
_REDUCTIONS: dict[type, Callable[[Any], Any]] = {
    torch.Tensor: reductions.reduce_tensor,
    torch.nn.Parameter: reductions.reduce_tensor,
    torch.UntypedStorage: reductions.reduce_storage,
}
_CONTAINERS = (list, tuple, set, frozenset, deque)
# Their attributes are read even if they have a `__reduce__` or `__getstate__`.
_NAMESPACES = (torch.nn.Module, types.SimpleNamespace)
# The second is that of frozen dataclasses with slots.
_GETS_ATTRIBUTES = (object.__getstate__, dataclasses._dataclass_getstate)  # type: ignore[attr-defined]
_ATOMS = frozenset({bool, bytes, complex, float, int, str, type(None)})


def _refuse(value: Any) -> None:
    """Raise RuntimeError if ``value`` is memory of a device."""
    if type(value) in _REDUCTIONS and value.device.type == "openreg":
        raise RuntimeError(
            f"Cannot send a tensor on {value.device} to another process: the memory of "
            "the device belongs to this one. Send tensor.cpu(), and move it to a "
            'device there. See docs/troubleshooting.md under "A tensor is sent to '
            'another process".'
        )


def _parts(value: Any) -> Iterable[Any]:
    """Return what is pickled with ``value``, as far as looking does no harm.

    Objects with a way of their own to be pickled are not asked: that may have effects.
    """
    kind = type(value)
    if isinstance(value, dict):
        return [*value.keys(), *value.values(), _attributes(value)]
    if isinstance(value, _CONTAINERS):
        return [*value, _attributes(value)]
    if isinstance(value, torch.TypedStorage):
        return [value._untyped_storage]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, (types.MethodType, types.BuiltinMethodType)):
        return [value.__self__]
    if isinstance(value, BaseException):
        return [value.args, _attributes(value)]
    if isinstance(value, _NAMESPACES) or _is_pickled_by_attributes(kind):
        return [_attributes(value)]
    return ()


def _attributes(value: Any) -> Any:
    """Return the object's ``__dict__`` and its slots, as pickling does by itself."""
    return object.__getstate__(value)


def _is_pickled_by_attributes(kind: type) -> bool:
    return (
        not issubclass(kind, (type, torch.Tensor, types.ModuleType, types.FunctionType))
        and kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and kind.__getstate__ in _GETS_ATTRIBUTES
    )


def _refuse_anywhere_in(value: Any) -> None:
    """Raise RuntimeError if ``value`` is or has memory of a device."""
    pending = [value]
    seen: dict[int, Any] = {}  # keeps what it has seen, so that no address comes again
    while pending:
        value = pending.pop()
        if type(value) in _ATOMS or id(value) in seen:
            continue
        seen[id(value)] = value
        _refuse(value)
        pending.extend(_parts(value))


def _patch_reductions() -> None:
    """Let pickling say why a device tensor is not sent, and what to send."""
    for kind, original in _REDUCTIONS.items():
        ForkingPickler.register(kind, _refusing(original))


def _refusing(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(original)
    def reduce(value: Any) -> Any:
        _refuse(value)
        return original(value)

    return reduce


def _patch_put(queues: types.ModuleType) -> None:
    """Let ``put`` look for device tensors before the queue's thread pickles them.

    Queues that handle their thread's errors, as ``concurrent.futures`` does, still do.
    """

    def checking(original: Callable[..., None]) -> Callable[..., None]:
        @wraps(original)
        def put(self: Any, obj: Any, *args: Any, **kwargs: Any) -> None:
            handler = queues.Queue._on_queue_feeder_error
            if is_initialized() and self._on_queue_feeder_error is handler:
                _refuse_anywhere_in(obj)
            original(self, obj, *args, **kwargs)

        return put

    for kind in (queues.Queue, queues.JoinableQueue):
        kind.put = checking(kind.put)


def apply() -> None:
    """Apply every patch. Call it once.

    ``put`` is patched before there is a device tensor: ``queue.put(make_one())`` looks
    it up first.
    """
    patch_on_import("multiprocessing.queues", _patch_put)
    _lazy_call(_patch_reductions)
