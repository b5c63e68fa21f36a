"""OpenReg: a simulated accelerator for PyTorch.

The package carries the driver, ``libopenreg``, with its C headers and its CMake
package; the functions below say where they are.
"""

from importlib.metadata import version

from torch_openreg.paths import cmake_dir, include_dir, library_path

__version__ = version("torch_openreg")

__all__ = ["__version__", "cmake_dir", "include_dir", "library_path"]
