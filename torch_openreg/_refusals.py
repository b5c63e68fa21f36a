"""Lets PyTorch report parts that are missing, where a program asks for one.

Without these changes PyTorch would report a missing key, or nothing at all. They leave
other devices, and what works without the missing part, as they are. The compiler needs
no change: it finds its refusal on the device's module (``openreg/_missing.py``).
"""

import functools
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch._C._profiler import ProfilerState
from torch.distributed import distributed_c10d
from torch.profiler import ProfilerActivity

from torch_openreg.openreg._lazy import is_initialized
from torch_openreg.openreg._missing import NO_COLLECTIVES, NO_GRAPHS, NO_PROFILER


def is_accelerator() -> bool:
    """Return whether this device is PyTorch's accelerator."""
    return torch._C._get_accelerator().type == "openreg"


# Collectives

# Backends of PyTorch that know other devices. Gloo would read device memory as if it
# were the host's.
_BACKENDS_OF_OTHERS = frozenset({"gloo", "mpi", "nccl", "ucc", "xccl"})
# The operators behind torch.distributed, in the namespace c10d.
_COLLECTIVES = (
    "_allgather_base_",
    "_reduce_scatter_base_",
    "allgather_",
    "allgather_coalesced_",
    "allgather_into_tensor_coalesced_",
    "allreduce_",
    "allreduce_coalesced_",
    "alltoall_",
    "alltoall_base_",
    "barrier",
    "broadcast_",
    "gather_",
    "monitored_barrier_",
    "recv_",
    "recv_any_source_",
    "reduce_",
    "reduce_scatter_",
    "reduce_scatter_tensor_coalesced_",
    "scatter_",
    "send",
)


def _patch_backend_config() -> None:
    """Refuse a process group for the device where the group is made.

    ``Backend.register_backend`` has a place for that, but from the first registration
    on PyTorch gives groups like "cpu:gloo" no default backend any more: they lose
    their sequence numbers, and warn when they end. ``__new__`` because the warnings of
    ``__init__`` name the caller's line.
    """

    def __new__(cls: type, backend: Any) -> Any:  # noqa: N807
        if _needs_occl(str(backend).lower()):
            raise NotImplementedError(NO_COLLECTIVES)
        _guard_collectives()
        return object.__new__(cls)

    kind: Any = distributed_c10d.BackendConfig
    kind.__new__ = __new__


def _needs_occl(backend: str) -> bool:
    """Return whether a group of this description needs the backend that is missing."""
    kinds = distributed_c10d.Backend
    if "OCCL" in kinds._plugins:
        return False  # somebody has registered one
    if backend == kinds.UNDEFINED:
        return is_accelerator() and "openreg" not in kinds.default_device_backend_map
    return "occl" in [pair.rpartition(":")[2] for pair in backend.split(",")]


def _patch_get_backend() -> None:
    """Let a group say what is missing if it is asked for its backend for the device.

    Pipelines ask, and groups that are bound to a device by ``device_id``.
    """
    original = distributed_c10d.ProcessGroup._get_backend

    @wraps(original)
    def _get_backend(self: Any, device: torch.device) -> Any:
        try:
            return original(self, device)
        except RuntimeError:
            if device.type != "openreg":
                raise
            raise NotImplementedError(NO_COLLECTIVES) from None

    distributed_c10d.ProcessGroup._get_backend = _get_backend  # type: ignore[method-assign]


@functools.cache
def _guard_collectives() -> torch.library.Library:
    """Let collectives on device tensors say what is missing, also those of C++ (DDP).

    Done with the first group: programs without one pay nothing. The kernels live as
    long as the library that is returned.
    """
    library = torch.library.Library("c10d", "IMPL")
    with warnings.catch_warnings():
        # PyTorch warns that a kernel is replaced, which is the purpose.
        warnings.simplefilter("ignore")
        for name in _COLLECTIVES:
            kernel = _guarded(getattr(torch.ops.c10d, name).default)
            library.impl(name, kernel, "PrivateUse1", with_keyset=True)
    return library


def _guarded(operator: torch._ops.OpOverload) -> Callable[..., Any]:
    """Return the operator's kernel for the device with a check of the group before."""
    names = [argument.name for argument in operator._schema.arguments]
    place = names.index("process_group")
    original = torch.library.get_kernel(operator, "PrivateUse1")

    def kernel(keys: Any, *args: Any) -> Any:
        group = distributed_c10d.ProcessGroup.unbox(args[place])
        if group._get_backend(torch.device("openreg")).name() in _BACKENDS_OF_OTHERS:
            raise NotImplementedError(NO_COLLECTIVES)
        return original.call_boxed(keys, *args)

    return kernel


# The profiler


@functools.cache
def _warn_of_no_events() -> None:
    """Warn, once: the profile goes on, and what it shows of the host is right."""
    warnings.warn(NO_PROFILER, stacklevel=4)


def _patch_profiler() -> None:
    """Warn of a profile that is asked for the device by name.

    PyTorch lists the device's activity as supported, and records nothing for it.
    """
    kind: Any = torch.profiler.profiler._KinetoProfile
    original = kind.__init__

    @wraps(original)
    def __init__(self: Any, *, activities: Any = None, **options: Any) -> None:  # noqa: N807
        original(self, activities=activities, **options)
        if activities is not None and ProfilerActivity.PrivateUse1 in self.activities:
            _warn_of_no_events()

    kind.__init__ = __init__


def _patch_autograd_profiler() -> None:
    """Refuse a profile by events of the device; warn of one that has all activities.

    Without Kineto, PyTorch prints an exception per operator and shows times that are
    none. A program that has not used the device gets no warning.
    """
    kind: Any = torch.autograd.profiler.profile
    original = kind._prepare_trace

    @wraps(original)
    def _prepare_trace(self: Any) -> None:
        if self.profiler_kind == ProfilerState.KINETO_PRIVATEUSE1_FALLBACK:
            raise NotImplementedError(NO_PROFILER)
        if self.profiler_kind == ProfilerState.KINETO_PRIVATEUSE1 and is_initialized():
            _warn_of_no_events()
        original(self)

    kind._prepare_trace = _prepare_trace


# Graphs


def _patch_graph() -> None:
    """Let ``torch.accelerator.Graph`` say more than that it is not supported."""
    kind: Any = torch.accelerator.Graph
    original = kind.__init__

    @wraps(original)
    def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: N807
        if is_accelerator():
            raise NotImplementedError(NO_GRAPHS)
        original(self, *args, **options)

    kind.__init__ = __init__


def apply() -> None:
    """Apply every patch. Call it once."""
    _patch_backend_config()
    _patch_get_backend()
    _patch_profiler()
    _patch_autograd_profiler()
    _patch_graph()
