"""Makes the device ``acme`` known. Full form: torch_openreg/_registration.py.

``import torch`` imports this too, by the entry point in pyproject.toml.
"""

import sys
import warnings
from pathlib import Path

_NAME = "acme"


def _register() -> None:
    """Register the device, or raise ImportError if another one has the place."""
    import torch  # first: it may call _autoload
    from torch.utils.backend_registration import (
        generate_methods_for_privateuse1_backend,
        rename_privateuse1_backend,
    )

    owner = torch._C._get_privateuse1_backend_name()
    if owner == _NAME:
        return
    if owner != "privateuseone":
        raise ImportError(f"{owner!r} has PyTorch's one place for such a device")
    rename_privateuse1_backend(_NAME)
    torch.ops.load_library(Path(__file__).parent / "acme_backend.so")
    from torch_acme import acme

    torch._register_device_module(_NAME, acme)
    generate_methods_for_privateuse1_backend(for_storage=True)


def _autoload() -> None:
    """Register at the end of ``import torch``, which must not fail for us."""
    try:
        _register()
    except ImportError as error:
        warnings.warn(f"The device {_NAME!r} is not available: {error}", stacklevel=2)


# While `import torch` is on its way, it calls _autoload by itself.
_torch = sys.modules.get("torch")
if not getattr(getattr(_torch, "__spec__", None), "_initializing", False):
    _register()
