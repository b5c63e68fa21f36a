"""Classes of typed storages on the device, as old programs name them.

A storage that is made here is a ``torch.TypedStorage``, and an instance of the class
that its dtype and device have. New programs use ``torch.UntypedStorage``.
"""

from typing import NoReturn

import torch
from torch.storage import _LegacyStorage, _LegacyStorageMeta

__all__ = [
    "BFloat16Storage",
    "BoolStorage",
    "ByteStorage",
    "CharStorage",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "DoubleStorage",
    "FloatStorage",
    "HalfStorage",
    "IntStorage",
    "LongStorage",
    "ShortStorage",
]


class _StorageMeta(_LegacyStorageMeta):
    """Makes a class equal to the host's class for the same dtype.

    ``Tensor.storage_type`` returns these classes, and PyTorch's tests expect of every
    device but CUDA that they are the host's.
    """

    def __eq__(self, other: object) -> bool:
        return self is other or other is getattr(torch, self.__name__, None)

    def __hash__(self) -> int:
        return hash(getattr(torch, self.__name__, None))


class _Storage(_LegacyStorage, metaclass=_StorageMeta):
    """What they have in common: nothing of the host's memory can become one."""

    @classmethod
    def from_buffer(cls, *args: object, **kwargs: object) -> NoReturn:
        """Raise RuntimeError, as CUDA's classes do."""
        raise RuntimeError("from_buffer: Not available for OpenReg storage")

    @classmethod
    def _new_with_weak_ptr(cls, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError("_new_with_weak_ptr: Not available for OpenReg storage")

    @classmethod
    def _new_shared_filename(cls, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError("_new_shared_filename: Not available for OpenReg storage")


class ByteStorage(_Storage):
    """Elements of torch.uint8."""

    dtype = _dtype = torch.uint8


class DoubleStorage(_Storage):
    """Elements of torch.double."""

    dtype = _dtype = torch.double


class FloatStorage(_Storage):
    """Elements of torch.float."""

    dtype = _dtype = torch.float


class HalfStorage(_Storage):
    """Elements of torch.half."""

    dtype = _dtype = torch.half


class LongStorage(_Storage):
    """Elements of torch.long."""

    dtype = _dtype = torch.long


class IntStorage(_Storage):
    """Elements of torch.int."""

    dtype = _dtype = torch.int


class ShortStorage(_Storage):
    """Elements of torch.short."""

    dtype = _dtype = torch.short


class CharStorage(_Storage):
    """Elements of torch.int8."""

    dtype = _dtype = torch.int8


class BoolStorage(_Storage):
    """Elements of torch.bool."""

    dtype = _dtype = torch.bool


class BFloat16Storage(_Storage):
    """Elements of torch.bfloat16."""

    dtype = _dtype = torch.bfloat16


class ComplexDoubleStorage(_Storage):
    """Elements of torch.cdouble."""

    dtype = _dtype = torch.cdouble


class ComplexFloatStorage(_Storage):
    """Elements of torch.cfloat."""

    dtype = _dtype = torch.cfloat


# PyTorch takes the device from the name of the module.
for _name in __all__:
    globals()[_name].__module__ = "torch.openreg"
