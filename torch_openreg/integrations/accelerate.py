"""accelerate's ``Accelerator``, with mixed precision in float16.

accelerate takes this device from ``ACCELERATE_TORCH_DEVICE=openreg`` and needs no more,
except for float16: its ``Accelerator`` refuses that on devices that are not on a list.
"""

from __future__ import annotations

import os
from typing import Any

import accelerate
import torch
from accelerate.state import AcceleratorState

__all__ = ["Accelerator"]


class Accelerator(accelerate.Accelerator):  # type: ignore[misc] # Any: may be missing
    """An ``accelerate.Accelerator`` whose ``mixed_precision`` may be ``"fp16"`` here.

    All else is the library's: without float16, or with another device in
    ``ACCELERATE_TORCH_DEVICE``, this class changes nothing.
    """

    def __init__(self, *, mixed_precision: str | None = None, **options: Any) -> None:
        """Take the library's arguments, by name."""
        wanted = mixed_precision or os.environ.get("ACCELERATE_MIXED_PRECISION")
        if str(wanted) != "fp16" or not _is_on_openreg(options):
            super().__init__(mixed_precision=mixed_precision, **options)
            return
        # The library keeps one state per process, and lets nobody have two precisions.
        shared = AcceleratorState._shared_state
        if shared.get("_mixed_precision") == "fp16":
            shared["_mixed_precision"] = "no"
        super().__init__(mixed_precision="no", **options)
        self.state._mixed_precision = "fp16"
        self.native_amp = True
        handler = self.scaler_handler
        self.scaler = torch.amp.GradScaler(
            "openreg", **({} if handler is None else handler.to_kwargs())
        )


def _is_on_openreg(options: dict[str, Any]) -> bool:
    name = os.environ.get("ACCELERATE_TORCH_DEVICE", "cpu")
    return not options.get("cpu") and torch.device(name).type == "openreg"
