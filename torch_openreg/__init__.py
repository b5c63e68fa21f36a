"""OpenReg: a simulated accelerator for PyTorch.

PyTorch knows the device ``openreg`` as soon as this package is imported. Where it
is installed, ``import torch`` imports it, unless ``TORCH_DEVICE_BACKEND_AUTOLOAD``
is ``0``. ``torch.openreg`` is the device's module, as ``torch.cuda`` is CUDA's.

The package carries the driver, ``libopenreg``, with its C headers and its CMake
package; the functions below say where they are.
"""

import sys

from torch_openreg.paths import cmake_dir, include_dir, library_path

__all__ = ["__version__", "cmake_dir", "include_dir", "library_path"]


def __getattr__(name: str) -> str:
    # Reading the version costs milliseconds, and few programs ask.
    if name == "__version__":
        from importlib.metadata import version

        return version("torch_openreg")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _autoload() -> None:
    """Make the device known to PyTorch; PyTorch calls this when it is imported.

    A failure must not take PyTorch with it: it becomes a warning.
    """
    try:
        from torch_openreg._registration import register

        register()
    except Exception as error:
        _warn(
            f"The device 'openreg' is not available: {error}. "
            "With TORCH_DEVICE_BACKEND_AUTOLOAD=0, PyTorch does without it, and "
            "'import torch_openreg' shows the whole error."
        )


def _warn(text: str) -> None:
    """Warn, but raise nothing where warnings are errors."""
    import warnings

    try:
        warnings.warn(text, stacklevel=3)
    except UserWarning:
        print(text, file=sys.stderr)


def _imported_by_torch() -> bool:
    """Return whether ``import torch`` is on its way and will call _autoload."""
    torch = sys.modules.get("torch")
    return getattr(getattr(torch, "__spec__", None), "_initializing", False)


def _activate() -> None:
    """Make the device known to PyTorch, or raise."""
    import torch  # noqa: F401 (first: it calls _autoload, if it may)

    from torch_openreg._registration import register

    register()


if not _imported_by_torch():
    _activate()
