"""The same arguments on another device: strides, overlap and lazy views included."""

from typing import Any

import torch
from torch.utils._pytree import tree_map

_COMPRESSED = {
    torch.sparse_csr: torch.sparse_csr_tensor,
    torch.sparse_csc: torch.sparse_csc_tensor,
    torch.sparse_bsr: torch.sparse_bsr_tensor,
    torch.sparse_bsc: torch.sparse_bsc_tensor,
}


class Transplant:
    """Copies nested arguments from the CPU to ``device``, which may be the CPU.

    Tensors that share a storage share its copy, and one tensor stays one tensor.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._tensors: dict[int, torch.Tensor] = {}
        self._kept_alive: list[Any] = []

    def __call__(self, values: Any) -> Any:
        """The same with all tensors, devices and generators on the device."""
        return tree_map(self._leaf, values, is_leaf=_is_opaque)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.device) and value.type == "cpu":
            return self._device
        if isinstance(value, str) and value == "cpu":
            return self._device.type
        if isinstance(value, torch.Generator):
            return torch.Generator(self._device).manual_seed(value.initial_seed())
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        known = self._tensors.get(id(tensor))
        if known is None:
            known = self._copy(tensor)
            if tensor.requires_grad:
                known.requires_grad_()
            if isinstance(tensor, torch.nn.Parameter):
                known = torch.nn.Parameter(known, tensor.requires_grad)
            self._tensors[id(tensor)] = known
            self._kept_alive.append(tensor)
        return known

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            if tensor.is_nested or tensor.is_quantized or tensor.device.type != "cpu":
                return tensor.detach().to(self._device, copy=True)
            if tensor.layout == torch.strided:
                return self._strided(tensor.detach())
            return self._sparse(tensor.detach())

    def _strided(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            self._kept_alive.append(storage)
            raw = torch.empty(0, dtype=torch.uint8).set_(storage)
            copy = torch.empty(len(raw), dtype=torch.uint8, device=self._device)
            self._storages[key] = copy.copy_(raw).untyped_storage()
        result = torch.empty(0, dtype=tensor.dtype, device=self._device).set_(
            self._storages[key],
            tensor.storage_offset(),
            tensor.size(),
            tensor.stride(),
        )
        if tensor.is_conj():
            result = torch.conj(result)
        if tensor.is_neg():
            result = torch._neg_view(result)
        return result

    def _sparse(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout == torch.sparse_coo:
            return torch.sparse_coo_tensor(
                self._strided(tensor._indices()),
                self._strided(tensor._values()),
                tensor.shape,
                is_coalesced=tensor.is_coalesced(),
                check_invariants=False,
            )
        if tensor.layout in _COMPRESSED:
            by_row = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
            outer, inner = (
                (tensor.crow_indices(), tensor.col_indices())
                if by_row
                else (tensor.ccol_indices(), tensor.row_indices())
            )
            return _COMPRESSED[tensor.layout](
                self._strided(outer),
                self._strided(inner),
                self._strided(tensor.values()),
                tensor.shape,
                check_invariants=False,
            )
        return tensor.to(self._device, copy=True)


def _is_opaque(value: Any) -> bool:
    """A ``torch.Size`` is a tuple, but must stay what it is."""
    return isinstance(value, torch.Size)
