"""Classes of tensors on the device, as old programs name them.

``torch.openreg.FloatTensor(2, 3)`` is ``torch.empty(2, 3, device="openreg")``. What is
made is a ``torch.Tensor``, and an instance of the class that its dtype has. New
programs use ``torch.tensor`` and ``torch.empty``.
"""

from typing import Any

import torch

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


class _TensorType(type):
    """The class of these classes: what they make, and what is an instance."""

    _dtype: torch.dtype

    @property
    def dtype(cls) -> torch.dtype:
        """The dtype of the tensors."""
        return cls._dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Make a tensor of sizes, of a sequence, or of another tensor or storage."""
        device = kwargs.get("device", "openreg")
        if torch.device(device).type != "openreg":
            raise RuntimeError(
                f"legacy constructor expects device type: openreg, but got: {device}"
            )
        return torch.empty(0, dtype=cls.dtype, device=device).new(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.device.type == "openreg"
            and instance.dtype == cls.dtype
            and instance.layout == torch.strided
        )


def _make(dtype: torch.dtype, name: str) -> _TensorType:
    # PyTorch takes the whole name of a type that is given to `Tensor.type`.
    doc = f"Dense tensors of {dtype} on the device."
    return _TensorType(f"torch.openreg.{name}", (), {"_dtype": dtype, "__doc__": doc})


BFloat16Tensor = _make(torch.bfloat16, "BFloat16Tensor")
BoolTensor = _make(torch.bool, "BoolTensor")
ByteTensor = _make(torch.uint8, "ByteTensor")
CharTensor = _make(torch.int8, "CharTensor")
DoubleTensor = _make(torch.float64, "DoubleTensor")
FloatTensor = _make(torch.float32, "FloatTensor")
HalfTensor = _make(torch.float16, "HalfTensor")
IntTensor = _make(torch.int32, "IntTensor")
LongTensor = _make(torch.int64, "LongTensor")
ShortTensor = _make(torch.int16, "ShortTensor")
