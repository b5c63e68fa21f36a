"""How the outcome of a program on the device differs from the CPU's."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.utils._pytree import tree_flatten

from tests.coverage.outcome import DEVICE, Observed, Outcome


@dataclass
class Comparison:
    """``different`` is empty if all is as on the CPU.

    ``values`` are those differences that are in the numbers alone, ``close`` those
    numbers that are equal within PyTorch's tolerance only: of a number, or of a
    tensor's largest with ``by_largest``, for sums of which little is left.
    """

    by_largest: bool = False

    different: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    close: list[str] = field(default_factory=list)


def compare(found: Outcome, expected: Outcome, by_largest: bool = False) -> Comparison:
    """Compare everything; differences are in words."""
    result = Comparison(by_largest)
    if expected.error is not None or found.error is not None:
        _compare_errors(found.error, expected.error, result)
    else:
        assert found.observed is not None
        assert expected.observed is not None
        _compare_observed(found.observed, expected.observed, result)
    if found.warnings != expected.warnings:
        missing = sorted(expected.warnings - found.warnings)
        new = sorted(found.warnings - expected.warnings)
        result.different.append(f"warnings: missing {missing}, new {new}")
    return result


def describe(error: Exception | None) -> str:
    """The type and the first line of the message."""
    if error is None:
        return "nothing"
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"


def _compare_errors(
    found: Exception | None, expected: Exception | None, result: Comparison
) -> None:
    if type(found) is not type(expected) and not _tells_later(found, expected):
        result.different.append(
            f"raised {describe(found)}, expected {describe(expected)}"
        )


def _tells_later(found: Exception | None, expected: Exception | None) -> bool:
    """Whether ``found`` is how a device in another process tells of ``expected``.

    It has run the operator after the call, so the failure comes with a later one.
    """
    if not torch.openreg.get_device_properties(0).isolated or expected is None:
        return False
    kind = type(expected).__name__.lstrip("_")  # torch._C._LinAlgError has one
    message = str(expected).partition("\n")[0]
    told = f"{kind}: {message}"
    return isinstance(found, torch.AcceleratorError) and told in str(found)


def _compare_observed(found: Observed, expected: Observed, result: Comparison) -> None:
    ours = [*_leaves("input", found.inputs), *_leaves("output", found.outputs)]
    theirs = [*_leaves("input", expected.inputs), *_leaves("output", expected.outputs)]
    if [name for name, _ in ours] != [name for name, _ in theirs]:
        result.different.append("structure of the results")
        return
    for (name, mine), (_, other) in zip(ours, theirs, strict=True):
        _compare_leaf(name, mine, other, result)
    mine, other = _aliasing(ours), _aliasing(theirs)
    if mine != other:
        result.different.append(f"aliasing: {mine}, expected {other}")


def _leaves(prefix: str, values: Any) -> list[tuple[str, Any]]:
    return [(f"{prefix} {i}", leaf) for i, leaf in enumerate(tree_flatten(values)[0])]


def _compare_leaf(name: str, found: Any, expected: Any, result: Comparison) -> None:
    if isinstance(found, torch.Tensor) and isinstance(expected, torch.Tensor):
        _compare_tensor(name, found, expected, result)
    elif type(found) is not type(expected):
        result.different.append(
            f"{name}: a {type(found).__name__}, expected {type(expected).__name__}"
        )
    elif isinstance(expected, float | complex | int | bool | str):
        if not _same_number(found, expected):
            result.values.append(f"{name}: {found}, expected {expected}")
    elif isinstance(expected, torch.dtype | torch.layout) and found != expected:
        result.different.append(f"{name}: {found}, expected {expected}")


def _same_number(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(found)
    if expected == "cpu":
        return found in (DEVICE, "cpu")
    return bool(found == expected) or (found != found and expected != expected)


def _facts(tensor: torch.Tensor) -> Iterator[tuple[str, Any]]:
    """What a tensor is like, but for its values and its device."""
    yield "type", type(tensor).__name__
    yield "dtype", tensor.dtype
    yield "layout", tensor.layout
    yield "requires_grad", tensor.requires_grad
    yield "is_leaf", tensor.is_leaf
    yield "is_nested", tensor.is_nested
    yield "is_inference", tensor.is_inference()
    if tensor.is_nested:
        return
    yield "shape", tuple(tensor.shape)
    if tensor.layout == torch.strided:
        yield "strides", tensor.stride()
        yield "storage_offset", tensor.storage_offset()
        yield "is_conj", tensor.is_conj()
        yield "is_neg", tensor.is_neg()
    if tensor.layout == torch.sparse_coo:
        yield "is_coalesced", tensor.is_coalesced()
        yield "sparse_dim", tensor.sparse_dim()
        yield "dense_dim", tensor.dense_dim()


def _is_written(tensor: torch.Tensor) -> bool:
    """By the version counter, but not how often: foreach counts twice on the CPU."""
    return not tensor.is_inference() and tensor._version > 0


def _compare_tensor(
    name: str, found: torch.Tensor, expected: torch.Tensor, result: Comparison
) -> None:
    differences = [
        f"{name}: {fact} {mine}, expected {other}"
        for (fact, mine), (_, other) in zip(
            _facts(found), _facts(expected), strict=False
        )
        if mine != other
    ]
    if name.startswith("input") and _is_written(found) < _is_written(expected):
        differences.append(f"{name}: the version counter stands still")
    result.different += differences
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return
    with torch.no_grad():
        same_lazily = not any(" is_" in each for each in differences)
        mine = _parts(found.detach(), same_lazily)
        other = _parts(expected.detach(), same_lazily)
        for ours, theirs in zip(mine, other, strict=True):
            _compare_values(name, ours.cpu(), theirs.cpu(), result)


def _parts(tensor: torch.Tensor, as_stored: bool) -> list[torch.Tensor]:
    """The strided tensors that hold what the tensor holds.

    ``as_stored`` takes no notice of lazy conjugation and negation: the CPU can't
    resolve them for every dtype.
    """
    if tensor.is_nested:
        return [part for each in tensor.unbind() for part in _parts(each, as_stored)]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if tensor.layout != torch.strided:
        return [tensor.to_dense()]
    if tensor.is_quantized:
        return [tensor.int_repr(), tensor.dequantize()]
    if not as_stored:
        return [tensor.resolve_conj().resolve_neg()]
    if tensor.is_conj():
        tensor = tensor.conj()
    return [torch._neg_view(tensor) if tensor.is_neg() else tensor]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.clone(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8)


def _compare_values(
    name: str, found: torch.Tensor, expected: torch.Tensor, result: Comparison
) -> None:
    if found.shape != expected.shape:
        result.different.append(
            f"{name}: shape of a part {tuple(found.shape)}, "
            f"expected {tuple(expected.shape)}"
        )
        return
    if found.numel() == 0 or torch.equal(_bits(found), _bits(expected)):
        return
    try:
        torch.testing.assert_close(
            found, expected, rtol=0, atol=0, equal_nan=True, check_stride=False
        )
        return
    except AssertionError as error:
        exact = str(error)
    rtol, atol = default_tolerances(found, expected)
    if result.by_largest:
        atol = max(atol, rtol * expected.abs().max().item())
    try:
        torch.testing.assert_close(
            found, expected, rtol=rtol, atol=atol, equal_nan=True, check_stride=False
        )
        result.close.append(f"{name}: {_greatest(exact)}")
    except AssertionError:
        result.values.append(f"{name}: values differ, {_greatest(exact)}")


def _greatest(message: str) -> str:
    """The lines of ``assert_close`` that say how far apart the values are."""
    lines = [line.strip() for line in message.splitlines()]
    told = [line for line in lines if line.startswith(("Mismatched", "Greatest"))]
    return "; ".join(told) or lines[0]


def _aliasing(leaves: list[tuple[str, Any]]) -> list[str]:
    """Which leaves are the same tensor, or have the same storage, as an earlier one."""
    objects: dict[int, str] = {}
    storages: dict[int, str] = {}
    result = []
    for name, leaf in leaves:
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
            continue
        if id(leaf) in objects:
            result.append(f"{name} is {objects[id(leaf)]}")
            continue
        objects[id(leaf)] = name
        if leaf.numel() == 0:  # nothing can be shared
            continue
        try:
            key = leaf.untyped_storage()._cdata
        except (NotImplementedError, RuntimeError):
            continue
        if key in storages:
            result.append(f"{name} shares memory with {storages[key]}")
        else:
            storages[key] = name
    return result
