"""Changes to PyTorch itself, for questions that it cannot answer otherwise.

Each replaces one method and leaves every other device to the original.
"""

import enum
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch.overrides import has_torch_function_unary

from torch_openreg import _C, _refusals, _sharing, _testing
from torch_openreg.openreg._lazy import is_initialized
from torch_openreg.openreg.engine import _wait_for_queued_work
from torch_openreg.openreg.random import _fork_before_first_use

_T = TypeVar("_T")


def _patch_dlpack_device() -> None:
    """Let ``Tensor.__dlpack_device__`` know the device under its new name.

    PyTorch 2.13 compares with the literal "privateuse1", which no tensor has once
    the backend is renamed.
    """
    original = torch.Tensor.__dlpack_device__

    @wraps(original)
    def __dlpack_device__(self: torch.Tensor) -> tuple[enum.IntEnum, int]:  # noqa: N807
        if has_torch_function_unary(self) or self.device.type != "openreg":
            return original(self)
        from torch.utils.dlpack import DLDeviceType

        return DLDeviceType.kDLExtDev, self.device.index

    torch.Tensor.__dlpack_device__ = __dlpack_device__  # type: ignore[method-assign]


def _patch_dlpack() -> None:
    """Let ``Tensor.__dlpack__`` order the consumer's stream after the producer's.

    PyTorch does so for CUDA alone. The numbers mean what they mean there: nothing and
    1 are the default stream, -1 asks for no order, others are handles of the driver.
    """
    original = torch.Tensor.__dlpack__

    @wraps(original)
    def __dlpack__(  # noqa: N807
        self: torch.Tensor, *, stream: Any = -1, **options: Any
    ) -> Any:
        if self.device.type != "openreg" or has_torch_function_unary(self):
            return original(self, stream=stream, **options)
        capsule = original(self, stream=stream, **options)
        if stream != -1:
            _order_consumer(self.device, stream)
        return capsule

    torch.Tensor.__dlpack__ = __dlpack__  # type: ignore[method-assign]


def _order_consumer(device: torch.device, stream: int | None) -> None:
    """Let the stream with this number wait for the device's current one."""
    from torch_openreg.openreg import streams

    if stream == 2:
        raise BufferError("per-thread default stream is not supported.")
    if stream == 0:
        raise AssertionError("unsupported stream on openreg: 0.")
    if stream is None or stream == 1:
        consumer: torch.Stream = streams.default_stream(device)
    else:
        consumer = streams.ExternalStream(stream, device)
    producer = streams.current_stream(device)
    if consumer != producer:
        consumer.wait_stream(producer)


def _patch_from_dlpack() -> None:
    """Let a capsule in only if its memory is on the device that it names.

    PyTorch believes it: the tensor's first operator would find out, or, where the
    kind of device does not exist on this machine, a null pointer of PyTorch's.
    """
    original = torch._C._from_dlpack

    @wraps(original)
    def from_dlpack(capsule: Any) -> torch.Tensor:
        _check_kind(_C._dlpack_kind(capsule))
        tensor = original(capsule)
        if tensor.numel() > 0:
            _check_memory(tensor)
        return tensor

    torch._C._from_dlpack = from_dlpack  # type: ignore[assignment]


# Kinds of devices that PyTorch has a name for, besides the CPU and this one, and
# whether the machine has them.
_OTHER_KINDS: dict[str, Callable[[], bool]] = {
    "kDLCUDA": torch.cuda.is_available,
    "kDLOpenCL": lambda: False,
    "kDLMetal": torch.backends.mps.is_available,
    "kDLROCM": torch.cuda.is_available,
    "kDLOneAPI": torch.xpu.is_available,
    "kDLMAIA": lambda: False,
}


def _check_kind(kind: int | None) -> None:
    """Raise BufferError if the machine has no device of this kind of DLPack's."""
    from torch.utils.dlpack import DLDeviceType

    for name, is_available in _OTHER_KINDS.items():
        if DLDeviceType[name] == kind and not is_available():
            raise BufferError(
                f"The DLPack capsule names a device of kind {kind} ({name}), and there "
                "is none."
            )


def _check_memory(tensor: torch.Tensor) -> None:
    """Raise BufferError if memory of a device has a name of another one."""
    is_ours = tensor.device.type == "openreg"
    if not is_ours and not is_initialized():
        return
    owner = _C._device_of_pointer(tensor.data_ptr())
    if owner != (tensor.device.index if is_ours else -1):
        where = f"on openreg:{owner}" if owner >= 0 else "on none"
        raise BufferError(
            f"The DLPack capsule names {tensor.device}, and its memory is {where}."
        )


def _patch_is_shared() -> None:
    """Let ``is_shared`` of a device storage say what CUDA's says: always true.

    PyTorch knows this of CUDA alone and looks for a file behind other storages.
    """
    original = torch.UntypedStorage.is_shared

    @wraps(original)
    def is_shared(self: torch.storage._StorageBase) -> bool:
        return self.device.type == "openreg" or original(self)

    torch.UntypedStorage.is_shared = is_shared  # type: ignore[method-assign]


def _patch_byteswap() -> None:
    """Let ``byteswap`` of a device storage swap a copy and bring it back.

    PyTorch swaps where the pointer points to, which only the host's memory allows.
    """
    original: Any = torch.UntypedStorage.byteswap

    @wraps(original)
    def byteswap(self: Any, dtype: torch.dtype) -> None:
        if self.device.type != "openreg":
            original(self, dtype)
            return
        on_host = self.cpu()
        original(on_host, dtype)
        self.copy_(on_host, False)

    torch.UntypedStorage.byteswap = byteswap  # type: ignore[method-assign]


def _patch_element_functions() -> None:
    """Let ``apply_``, ``map_`` and ``map2_`` call a Python function for each element.

    PyTorch has them for the CPU, and its tests call them on every device but CUDA.
    """
    for name in ("apply_", "map_", "map2_"):
        setattr(torch.Tensor, name, _on_host(getattr(torch.Tensor, name)))


def _on_host(original: Any) -> Any:
    """Return a method that writes its tensor with a version that goes by the host."""

    @wraps(original)
    def method(self: torch.Tensor, *args: Any) -> torch.Tensor:
        if self.device.type != "openreg" or has_torch_function_unary(self):
            return cast(torch.Tensor, original(self, *args))
        moved = [x.cpu() if isinstance(x, torch.Tensor) else x for x in args]
        host = self.detach().cpu().requires_grad_(self.requires_grad)
        return self.copy_(original(host, *moved))

    return method


def _patch_fork_rng() -> None:
    """Let ``fork_rng`` of no device in particular leave unused devices alone.

    PyTorch would initialise all devices of the accelerator, and warn of their number:
    programs for the CPU would say something that they did not say before.
    """
    original = torch.random.fork_rng

    @contextmanager
    def fork_host() -> Iterator[None]:
        with original(devices=[]), _fork_before_first_use():
            yield

    @wraps(original)
    def fork_rng(
        devices: Iterable[Any] | None = None,
        enabled: bool = True,
        _caller: str = "fork_rng",
        _devices_kw: str = "devices",
        device_type: str | None = None,
    ) -> AbstractContextManager[None]:
        is_named = devices is not None or device_type is not None
        if (
            not enabled
            or is_named
            or is_initialized()
            or not _refusals.is_accelerator()
        ):
            return original(devices, enabled, _caller, _devices_kw, device_type)
        return fork_host()

    torch.random.fork_rng = fork_rng  # type: ignore[assignment]


# Settings that the CPU's kernels read while they run: the setters of the table in
# backend/simulation/common/settings_table.h, except that of warnings.
_SETTERS = (
    "_set_check_sparse_tensor_invariants",
    "_set_cpu_allow_fp16_reduced_precision_reduction",
    "_set_default_dtype",
    "_set_default_tensor_type",
    "_set_deterministic_algorithms",
    "_set_deterministic_fill_uninitialized_memory",
    "_set_float32_matmul_precision",
    "_set_fp32_precision_setter",
    "_set_math_sdp_allow_fp16_bf16_reduction",
    "_set_mkldnn_deterministic",
    "_set_mkldnn_enabled",
    "_set_nnpack_enabled",
    "_set_onednn_allow_tf32",
    "_set_qengine",
    "set_num_threads",
)


def _patch_setters() -> None:
    """Let a setting change only when nothing is queued that was called before.

    The kernels that a device runs are the CPU's: they would see the new value. What
    is called later takes it along.
    """
    for name in _SETTERS:
        original = getattr(torch._C, name)
        waiting = _waiting(original)
        setattr(torch._C, name, waiting)
        if getattr(torch, name, None) is original:
            setattr(torch, name, waiting)


def _patch_set_warn_always() -> None:
    """Let devices know whether warnings that come once come always.

    It changes no result, so nothing has to wait for it.
    """
    original = torch._C._set_warnAlways

    @wraps(original)
    def set_warn_always(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        _C._refresh_settings()

    torch._C._set_warnAlways = set_warn_always


def _patch_set_num_threads() -> None:
    """Let backward passes know the number of threads.

    PyTorch keeps it by thread, and those that run backward passes don't hear of it.
    """
    original = torch.set_num_threads

    @wraps(original)
    def set_num_threads(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        _C._note_thread_count(torch.get_num_threads())

    torch.set_num_threads = set_num_threads
    torch._C.set_num_threads = set_num_threads


def _waiting(setter: Callable[..., _T]) -> Callable[..., _T]:
    """Return ``setter`` with a wait for all devices before it."""

    @wraps(setter)
    def waiting(*args: Any, **kwargs: Any) -> _T:
        _wait_for_queued_work()
        try:
            return setter(*args, **kwargs)
        finally:
            _C._refresh_settings()

    return waiting


def apply() -> None:
    """Apply every patch. Call it once."""
    _patch_dlpack_device()
    _patch_dlpack()
    _patch_from_dlpack()
    _patch_is_shared()
    _patch_byteswap()
    _patch_element_functions()
    _patch_fork_rng()
    _patch_setters()
    _patch_set_warn_always()
    _patch_set_num_threads()
    _testing.apply()
    _refusals.apply()
    _sharing.apply()
