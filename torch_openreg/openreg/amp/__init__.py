"""Mixed precision: ``torch.amp`` for the device ``openreg``."""

import functools

import torch

from torch_openreg import _C

__all__ = [
    "GradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_amp_supported_dtype",
]

custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="openreg")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="openreg")


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that autocast can compute in.

    ``torch.autocast`` asks before it switches anything on.
    """
    # Fake tensors of the device reach its kernels though it was never used.
    _C._register_on_first_use()
    return [torch.float16, torch.bfloat16]


class autocast(torch.amp.autocast):  # noqa: N801 (the name is torch.cuda's)
    """``torch.amp.autocast("openreg", ...)``."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype = torch.float16,
        cache_enabled: bool = True,
    ) -> None:
        """Choose the dtype to compute in."""
        super().__init__(
            "openreg", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled
        )


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("openreg", ...)``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        """Choose the first scale and how it grows and shrinks."""
        super().__init__(
            "openreg",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
