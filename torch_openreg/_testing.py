"""Facts about the device that PyTorch's own test classes cannot find by themselves.

``torch.testing._internal.common_device_type`` makes tests for every device, and ours
needs nothing for that but its module. Two things are mended, when that module is
imported and not before: it is large, and few programs need it.
"""

import gc
from functools import wraps
from types import ModuleType

import torch

from torch_openreg._on_import import patch_on_import


def _patch_sufficient_memory(module: ModuleType) -> None:
    """Let ``@largeTensorTest`` ask the device for its free memory.

    It asks the devices that it knows by name, and skips the tests of others.
    """
    original = module._has_sufficient_memory

    @wraps(original)
    def _has_sufficient_memory(device: str, size: int) -> bool:
        place = torch.device(device)
        if place.type != "openreg":
            return bool(original(device, size))
        from torch_openreg.openreg import memory

        gc.collect()
        memory.empty_cache()
        free, _ = memory.mem_get_info(place)
        return free * memory.get_per_process_memory_fraction(place) >= size

    module._has_sufficient_memory = _has_sufficient_memory  # type: ignore[attr-defined]


def _patch_device_type(module: ModuleType) -> None:
    """Let the tests' base class have the device's name from the start.

    Else it takes the name while it makes the first test with a device, and what
    speaks of the name (``@dtypesIfPRIVATEUSE1``, the exclusions of an operator) holds
    only for the tests that come later, in an order that the hash seed decides.
    """
    module.PrivateUse1TestBase.device_type = "openreg"


def _patch(module: ModuleType) -> None:
    _patch_sufficient_memory(module)
    _patch_device_type(module)


def apply() -> None:
    """Patch the module, now if it is there, else when it comes. Call it once."""
    patch_on_import("torch.testing._internal.common_device_type", _patch)
