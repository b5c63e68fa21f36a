"""Changes a module when it is imported, and not before: a program may never need it."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_Patch = Callable[[ModuleType], None]


class _PatchingLoader(Loader):
    """Loads the module as ``original`` does, then patches it."""

    def __init__(self, original: Loader, patch: _Patch) -> None:
        self._original = original
        self._patch = patch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the original."""
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then patch it."""
        self._original.exec_module(module)
        self._patch(module)


class _Finder(MetaPathFinder):
    """Waits for the import of the one module, then leaves."""

    def __init__(self, name: str, patch: _Patch) -> None:
        self._name = name
        self._patch = patch

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find the module as if this finder were not there, with another loader."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _PatchingLoader(spec.loader, self._patch)
        return spec


def patch_on_import(name: str, patch: _Patch) -> None:
    """Call ``patch`` with the module: now if it is there, else when it comes."""
    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, _Finder(name, patch))
    else:
        patch(module)
