"""Changes to PyTorch itself, for questions that it cannot answer otherwise.

Each replaces one method and leaves every other device to the original.
"""

import enum
from functools import wraps

import torch
from torch.overrides import has_torch_function_unary


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


def _patch_is_shared() -> None:
    """Let ``is_shared`` of a device storage say what CUDA's says: always true.

    PyTorch knows this of CUDA alone and looks for a file behind other storages.
    """
    original = torch.UntypedStorage.is_shared

    @wraps(original)
    def is_shared(self: torch.storage._StorageBase) -> bool:
        return self.device.type == "openreg" or original(self)

    torch.UntypedStorage.is_shared = is_shared  # type: ignore[method-assign]


def apply() -> None:
    """Apply every patch. Call it once."""
    _patch_dlpack_device()
    _patch_is_shared()
