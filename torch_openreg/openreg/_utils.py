"""Device arguments, in all their forms."""

import torch
from torch.types import Device

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init


def _get_device_index(
    device: Device, optional: bool = False, allow_cpu: bool = False
) -> int:
    """Return the index that ``device`` stands for; it need not exist.

    Without an index it is the current device if ``optional``, else ValueError; so
    is a device of another kind. The CPU is -1 with ``allow_cpu``.
    """
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if device is not None:
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "openreg":
            raise ValueError(f"Expected an openreg device, but got: {device}")
        if device.index is not None:
            return device.index
    if not optional:
        raise ValueError(
            "Expected a torch.device with a specified index or an integer, "
            f"but got: {device}"
        )
    _lazy_init()
    return _C._get_device()
