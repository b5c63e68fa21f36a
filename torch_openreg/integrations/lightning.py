"""An accelerator for Lightning, which knows its devices by class.

    trainer = lightning.Trainer(
        accelerator=OpenRegAccelerator(),
        strategy=SingleDeviceStrategy("openreg:0"),
    )

The strategy is Lightning's own, and has to be named: Lightning chooses a device only
for the accelerators that it comes with, and the CPU for others. Once this module is
imported, ``accelerator="openreg"`` works as well. One device a Trainer: more would
need collectives, which the device does not have yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch.accelerators import Accelerator, AcceleratorRegistry

from torch_openreg import openreg

__all__ = ["OpenRegAccelerator"]

_NAME = "openreg"


class OpenRegAccelerator(Accelerator):  # type: ignore[misc] # Any: may be missing
    """Runs a Lightning Trainer on one device ``openreg``."""

    def setup_device(self, device: torch.device) -> None:
        """Make ``device`` current. Raises ValueError if it is another kind."""
        if device.type != _NAME:
            raise ValueError(
                f"Lightning chose the device '{device}' for OpenRegAccelerator; name "
                "one: strategy=SingleDeviceStrategy('openreg:0')"
            )
        openreg.set_device(device)

    def teardown(self) -> None:
        """Wait for queued work, so that its failures are reported; free the cache."""
        openreg.synchronize()
        openreg.empty_cache()

    def get_device_stats(self, device: torch.device | str | int) -> dict[str, Any]:
        """Return what the device's allocator has counted."""
        return dict(openreg.memory_stats(device))

    @staticmethod
    def parse_devices(devices: int | str | Sequence[int]) -> list[int]:
        """Return the one index that a Trainer's ``devices`` means.

        As for Lightning's own: a number is how many, a list or a text with commas are
        indices. Raises ValueError for anything but one device that exists.
        """
        indices = _indices(devices)
        if len(indices) != 1:
            raise ValueError(
                f"devices={devices!r} asks for {len(indices)} devices, and a Trainer "
                "can use one openreg device: more would need collectives"
            )
        count = openreg.device_count()
        if not 0 <= indices[0] < count:
            raise ValueError(
                f"devices={devices!r}: there is no device openreg:{indices[0]}, "
                f"there are {count}"
            )
        return indices

    @staticmethod
    def get_parallel_devices(devices: Sequence[int]) -> list[torch.device]:
        """Return the devices of these indices."""
        return [torch.device(_NAME, index) for index in devices]

    @staticmethod
    def auto_device_count() -> int:
        """Return how many devices ``devices="auto"`` means: one."""
        return min(1, openreg.device_count())

    @staticmethod
    def is_available() -> bool:
        """Return whether there is a device."""
        return openreg.is_available()

    @staticmethod
    def name() -> str:
        """Return the name that ``Trainer(accelerator=...)`` knows it by."""
        return _NAME


def _indices(devices: int | str | Sequence[int]) -> list[int]:
    """Return the indices that ``devices`` means, whether they exist or not."""
    try:
        if isinstance(devices, str):
            if "," not in devices:
                return _first(int(devices))
            return [int(part) for part in devices.split(",") if part.strip()]
        if isinstance(devices, int):
            return _first(devices)
        return [int(index) for index in devices]
    except (TypeError, ValueError) as error:
        raise ValueError(f"devices={devices!r} names no openreg devices") from error


def _first(number: int) -> list[int]:
    """Return the first ``number`` devices; -1 is all."""
    return list(range(openreg.device_count() if number == -1 else number))


AcceleratorRegistry.register(
    _NAME, OpenRegAccelerator, description="The simulated accelerator", override=True
)
