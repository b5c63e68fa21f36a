"""What PyTorch's own test classes cannot find out about a device from outside.

``torch.testing._internal.common_device_type`` makes tests for every device, and ours
needs nothing for that but its module. Two things are mended, when that module is
imported and not before: it is large, and few programs need it.
"""

import gc
import sys
from collections.abc import Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

import torch

_MODULE = "torch.testing._internal.common_device_type"


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


class _PatchingLoader(Loader):
    """Loads the module as ``original`` does, then patches it."""

    def __init__(self, original: Loader) -> None:
        self._original = original

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the original."""
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then patch it."""
        self._original.exec_module(module)
        _patch(module)


class _Finder(MetaPathFinder):
    """Waits for the import of the one module, then leaves."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find the module as if this finder were not there, with another loader."""
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _PatchingLoader(spec.loader)
        return spec


def apply() -> None:
    """Patch the module, now if it is there, else when it comes. Call it once."""
    module = sys.modules.get(_MODULE)
    if module is None:
        sys.meta_path.insert(0, _Finder())
    else:
        _patch(module)
