"""The entries of PyTorch's databases, under names that stay the same between runs."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as methods
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

_OPTIMIZER_DTYPES = (
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
)


@dataclass(frozen=True)
class Entry:
    """One entry: an operator, a module, an optimizer or a foreach function."""

    database: str
    name: str
    info: Any
    """PyTorch's description: an OpInfo, a ModuleInfo or an OptimizerInfo."""

    @property
    def key(self) -> str:
        """The database and the name."""
        return f"{self.database}/{self.name}"

    def dtypes(self) -> list[torch.dtype]:
        """Those that the CPU supports, in a fixed order."""
        if self.database == "optim":
            return [
                dtype
                for dtype in _OPTIMIZER_DTYPES
                if self.info.supports_complex or not dtype.is_complex
            ]
        return sorted(self.info.supported_dtypes("cpu"), key=str)


def foreach_infos() -> list[Any]:
    """PyTorch's descriptions of the foreach functions."""
    return [
        *methods.foreach_unary_op_db,
        *methods.foreach_binary_op_db,
        *methods.foreach_pointwise_op_db,
        *methods.foreach_reduce_op_db,
        *methods.foreach_other_op_db,
    ]


@cache
def entries() -> dict[str, Entry]:
    """All entries by their keys, in the databases' order."""
    named = [
        *(("op", info.full_name, info) for info in methods.op_db),
        *(("foreach", info.full_name, info) for info in foreach_infos()),
        *(("module", info.name, info) for info in module_db),
        *(("optim", info.optim_cls.__name__, info) for info in optim_db),
    ]
    result: dict[str, Entry] = {}
    for database, name, info in named:
        unique, number = name, 1
        while f"{database}/{unique}" in result:
            number += 1
            unique = f"{name}#{number}"
        entry = Entry(database, unique, info)
        result[entry.key] = entry
    return result
