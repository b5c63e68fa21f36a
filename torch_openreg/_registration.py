"""Makes the device known to PyTorch: its name, its module, its methods."""

import sys
from types import ModuleType

import torch
from torch.utils.backend_registration import (
    generate_methods_for_privateuse1_backend,
    rename_privateuse1_backend,
)

_NAME = "openreg"
# The libraries are built for the C++ interface of this version, the one that
# pyproject.toml asks for. With another one, loading them could end the process.
_TORCH_VERSION = "2.13.0"
_SUBMODULES = (
    "amp",
    "engine",
    "memory",
    "random",
    "storage",
    "streams",
    "tensor_types",
)

_registered = False


def _check_torch() -> None:
    """Raise ImportError if loading our libraries would not go well."""
    version = torch.__version__.split("+")[0]
    if version != _TORCH_VERSION:
        raise ImportError(
            f"torch_openreg was built for torch {_TORCH_VERSION}, this is {version}"
        )
    owner = torch._C._get_privateuse1_backend_name()
    if owner not in ("privateuseone", _NAME):
        raise ImportError(
            f"PyTorch has one place for a device from outside, and {owner!r} has it"
        )


def _register_module(module: ModuleType) -> None:
    """Make ``module`` importable as ``torch.openreg``, its parts too."""
    torch._register_device_module(_NAME, module)
    for name in _SUBMODULES:
        # Without this, `import torch.openreg.memory` would make a second copy.
        sys.modules[f"torch.{_NAME}.{name}"] = getattr(module, name)


def register() -> None:
    """Register the device ``openreg``. Does nothing the second time.

    Starts no thread and touches no device: that waits for the first use.
    Raises ImportError if the backend's libraries cannot be loaded.
    """
    global _registered
    if _registered:
        return
    _check_torch()
    from torch_openreg import _patches, openreg

    rename_privateuse1_backend(_NAME)
    _register_module(openreg)
    generate_methods_for_privateuse1_backend(for_storage=True)
    _patches.apply()
    _registered = True
