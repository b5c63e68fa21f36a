"""Where the files of the installed driver are.

A build against the driver needs these three places: the headers, the library,
and the CMake package that names both.
"""

from pathlib import Path

import torch_openreg


def _find(relative: str) -> Path:
    """Return the first place of the package that holds ``relative``.

    An editable install has two places: the sources and the built files.
    """
    places = [Path(place) for place in torch_openreg.__path__]
    for place in places:
        candidate = place / relative
        if candidate.exists():
            return candidate.resolve()
    searched = ", ".join(str(place) for place in places)
    raise FileNotFoundError(
        f"torch_openreg is installed without {relative!r} (searched {searched}); "
        "install the package again"
    )


def include_dir() -> Path:
    """Return the directory to include ``openreg/openreg.h`` from."""
    return _find("include/openreg/openreg.h").parent.parent


def library_path() -> Path:
    """Return the path of the driver, ``libopenreg.so``."""
    return _find("lib/libopenreg.so")


def cmake_dir() -> Path:
    """Return the directory for ``OpenReg_DIR``, which ``find_package`` reads."""
    return _find("lib/cmake/OpenReg/OpenRegConfig.cmake").parent
