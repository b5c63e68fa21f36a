"""Files of safetensors, loaded straight to a device.

The library has a closed list of devices in its native part. These functions have the
names and arguments of its own. Each tensor is mapped from the file and copied to the
device by itself, so the host never holds the whole of it.

``install()`` is for libraries that call safetensors themselves: it puts a ``safe_open``
in the library's place that knows this device, and leaves all other calls to the
library's own. ``uninstall()`` undoes that.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import safetensors
import safetensors.torch
import torch

__all__ = ["install", "load_file", "safe_open", "uninstall"]

# The library's own. install() puts another under its name, so nothing here may look
# the name up again.
_ORIGINAL: Any = safetensors.safe_open
# Where the library keeps it: for programs, and for its own load_file.
_HOLDERS: tuple[Any, ...] = (safetensors, safetensors.torch)

_FRAMEWORKS = ("pt", "torch", "pytorch")


class safe_open:  # noqa: N801 (the name is safetensors')
    """``safetensors.safe_open`` whose tensors come on any device of PyTorch.

    Raises what PyTorch raises for a device that does not exist, before a tensor is
    read.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str = "pt",
        device: torch.device | str | int = "cpu",
        **options: Any,
    ) -> None:
        """Open the file; its tensors are read when they are asked for.

        The library's own ``safe_open`` gets the ``options``, such as ``backend``.
        """
        if framework not in _FRAMEWORKS:
            raise ValueError(f"framework must be 'pt', got {framework!r}")
        self._device = torch.device(device)
        torch.empty(0, device=self._device)  # a device that does not exist raises
        self._file: Any = _ORIGINAL(filename, framework="pt", device="cpu", **options)

    def __enter__(self) -> safe_open:
        """Return the open file."""
        self._file.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.__exit__(kind, value, traceback)

    def keys(self) -> list[str]:
        """Return the names of the tensors."""
        return list(self._file.keys())

    def offset_keys(self) -> list[str]:
        """Return the names of the tensors, in their order in the file."""
        return list(self._file.offset_keys())

    def metadata(self) -> dict[str, str] | None:
        """Return the texts that were saved with the tensors."""
        metadata: dict[str, str] | None = self._file.metadata()
        return metadata

    def get_tensor(self, name: str) -> torch.Tensor:
        """Return a tensor, on the device."""
        tensor: torch.Tensor = self._file.get_tensor(name)
        return tensor.to(self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        """Return all tensors by name, on the device."""
        return {name: self.get_tensor(name) for name in self.keys()}

    def get_slice(self, name: str) -> _Slice:
        """Return a tensor to be indexed: only what is asked for is read."""
        return _Slice(self._file.get_slice(name), self._device)


class _Slice:
    """A tensor in a file, of which a part is loaded by indexing."""

    def __init__(self, part: Any, device: torch.device) -> None:
        self._part = part
        self._device = device

    def get_shape(self) -> Sequence[int]:
        """Return the shape of the whole tensor."""
        shape: Sequence[int] = self._part.get_shape()
        return shape

    def get_dtype(self) -> str:
        """Return the dtype, in safetensors' words."""
        return str(self._part.get_dtype())

    def __getitem__(self, index: Any) -> torch.Tensor:
        tensor: torch.Tensor = self._part[index]
        return tensor.to(self._device)


def load_file(
    filename: str | os.PathLike[str],
    device: torch.device | str | int = "cpu",
    **options: Any,
) -> dict[str, torch.Tensor]:
    """Return all tensors of a file, on ``device``; ``safetensors.torch.load_file``."""
    with safe_open(filename, device=device, **options) as file:
        return file.get_tensors()


class _InstalledSafeOpen:
    """What ``safetensors.safe_open`` is after install().

    A class, as the library's own is, whose instances are either the library's or, for
    tensors on this device, ours.
    """

    def __new__(
        cls,
        filename: str | os.PathLike[str],
        framework: str,
        device: torch.device | str | int = "cpu",
        **options: Any,
    ) -> Any:
        is_ours = framework in _FRAMEWORKS and str(device).split(":")[0] == "openreg"
        return (safe_open if is_ours else _ORIGINAL)(
            filename, framework, device, **options
        )


def install() -> None:
    """Let ``safetensors.safe_open`` and ``safetensors.torch.load_file`` know openreg.

    Calls that name another device or framework go to the library's own ``safe_open``,
    as before. A library that has imported that name before keeps what it has: install
    first. Calling it again changes nothing.
    """
    for holder in _HOLDERS:
        holder.safe_open = _InstalledSafeOpen


def uninstall() -> None:
    """Undo install(); without one, do nothing.

    What another package has put there since stays.
    """
    for holder in _HOLDERS:
        if holder.safe_open is _InstalledSafeOpen:
            holder.safe_open = _ORIGINAL
