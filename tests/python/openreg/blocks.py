"""Device memory by the byte, for the tests of the allocator."""

import torch
from torch import openreg

MIB = 1 << 20


def block(size: int, device: str = "openreg:0") -> torch.Tensor:
    """Take ``size`` bytes of ``device``."""
    return torch.empty(size, dtype=torch.uint8, device=device)


def stat(name: str, device: int = 0) -> int:
    """Return one of the statistics of ``device``."""
    return openreg.memory_stats(device)[name]
