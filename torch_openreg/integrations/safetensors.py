"""Files of safetensors, loaded straight to a device.

The library has a closed list of devices in its native part. These functions have the
names and arguments of its own. Each tensor is mapped from the file and copied to the
device by itself, so the host never holds the whole of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import safetensors
import torch

__all__ = ["load_file", "safe_open"]


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
    ) -> None:
        """Open the file; its tensors are read when they are asked for."""
        if framework not in ("pt", "torch", "pytorch"):
            raise ValueError(f"framework must be 'pt', got {framework!r}")
        self._device = torch.device(device)
        torch.empty(0, device=self._device)  # a device that does not exist raises
        self._file: Any = safetensors.safe_open(filename, framework="pt", device="cpu")

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

    def metadata(self) -> dict[str, str] | None:
        """Return the texts that were saved with the tensors."""
        metadata: dict[str, str] | None = self._file.metadata()
        return metadata

    def get_tensor(self, name: str) -> torch.Tensor:
        """Return a tensor, on the device."""
        tensor: torch.Tensor = self._file.get_tensor(name)
        return tensor.to(self._device)

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
    filename: str | os.PathLike[str], device: torch.device | str | int = "cpu"
) -> dict[str, torch.Tensor]:
    """Return all tensors of a file, on ``device``; ``safetensors.torch.load_file``."""
    with safe_open(filename, device=device) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
