"""Lets Python code of PyTorch that chooses by the device's name choose as for the CPU.

Otherwise the two devices would run two programs.
"""

from functools import wraps
from typing import Any

import torch
from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions


def choose_as_for_the_cpu() -> None:
    """Change PyTorch, for the whole process."""
    original = LinearCrossEntropyOptions._adjust

    # How a loss in half precision is added up.
    @wraps(original)
    def _adjust(self: Any, *args: Any, device: Any = None) -> Any:
        return original(self, *args, device=device and torch.device("cpu"))

    LinearCrossEntropyOptions._adjust = _adjust
