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


def pool_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the id of the pool that ``tensor`` is in."""
    address = tensor.data_ptr()
    for segment in openreg.memory_snapshot():
        if 0 <= address - segment["address"] < segment["total_size"]:
            return segment["segment_pool_id"]
    raise AssertionError("no segment holds the tensor")
