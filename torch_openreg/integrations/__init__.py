"""Support for libraries that have a closed list of devices.

Most libraries need nothing; ``docs/ecosystem.md`` says which, as tested. Importing
this package imports none of the libraries.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_openreg.integrations.lightning import OpenRegAccelerator

__all__ = ["OpenRegAccelerator"]


def __getattr__(name: str) -> Any:
    # Lightning takes seconds to import, and is not installed everywhere.
    if name == "OpenRegAccelerator":
        from torch_openreg.integrations.lightning import OpenRegAccelerator

        return OpenRegAccelerator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
