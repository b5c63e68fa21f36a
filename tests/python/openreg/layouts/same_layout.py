"""Compares sparse, nested and quantized tensors of the device with the CPU's."""

import warnings
from collections.abc import Callable

import torch
from torch.utils._pytree import tree_flatten, tree_map_only

DEVICE = "openreg"
COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


def quiet() -> None:
    """Ignore the warnings that a layout is in beta, or on its way out."""
    warnings.simplefilter("ignore", UserWarning)


def numbers(*shape: int, seed: int = 3) -> torch.Tensor:
    """Numbers without a pattern, the same every time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def with_gaps(*shape: int, seed: int = 3) -> torch.Tensor:
    """Numbers of which about half are zero."""
    found = numbers(*shape, seed=seed)
    return torch.where(numbers(*shape, seed=seed + 1) > 0, found, 0)


def on(device: str, values: object, requires_grad: bool = False) -> object:
    """New leaves with the values of all tensors, on ``device``."""

    def move(tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor.detach().clone().to(device)
        differentiable = moved.is_floating_point() or moved.is_complex()
        return moved.requires_grad_(requires_grad and differentiable)

    return tree_map_only(torch.Tensor, move, values)


def _parts(tensor: torch.Tensor) -> list[object]:
    """What a tensor that is not plain is made of."""
    if tensor.is_nested:
        return [len(tensor.unbind()), *tensor.unbind()]
    if tensor.is_quantized:
        scheme = tensor.qscheme()
        if scheme == torch.per_tensor_affine:
            parameters: list[object] = [tensor.q_scale(), tensor.q_zero_point()]
        else:
            parameters = [
                tensor.q_per_channel_scales(),
                tensor.q_per_channel_zero_points(),
                tensor.q_per_channel_axis(),
            ]
        return [scheme, tensor.stride(), tensor.dequantize(), *parameters]
    if tensor.layout == torch.sparse_coo:
        return [tensor.is_coalesced(), tensor._indices(), tensor._values()]
    names = COMPRESSED[tensor.layout]
    return [getattr(tensor, name)() for name in (*names, "values")]


def assert_same_tensor(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Same layout, dtype, sizes and parts; plain ones have the same strides."""
    assert found.device.type == DEVICE
    assert found.layout == expected.layout
    assert found.dtype == expected.dtype
    assert found.is_nested == expected.is_nested
    assert found.is_quantized == expected.is_quantized
    if expected.is_nested or expected.is_quantized or expected.layout != torch.strided:
        assert expected.is_nested or found.shape == expected.shape
        assert_same(_parts(found.detach()), _parts(expected.detach()))
        return
    assert found.shape == expected.shape
    assert found.stride() == expected.stride()
    torch.testing.assert_close(
        found.detach().cpu(), expected.detach(), rtol=0, atol=0, equal_nan=True
    )


def assert_same(found: object, expected: object) -> None:
    """Results are the same, tensors as ``assert_same_tensor`` has it."""
    found_leaves, _ = tree_flatten(found)
    expected_leaves, _ = tree_flatten(expected)
    for ours, theirs in zip(found_leaves, expected_leaves, strict=True):
        if isinstance(theirs, torch.Tensor):
            assert_same_tensor(ours, theirs)
        else:
            assert ours == theirs


def _sum(result: torch.Tensor) -> torch.Tensor:
    """A number that depends on all of the result, and on each value differently."""
    if result.is_nested:
        result = torch.cat([part.reshape(-1) for part in result.unbind()])
    if result.layout != torch.strided:
        result = result.to_dense()
    weights = torch.arange(1.0, result.numel() + 1, device=result.device)
    return (result.reshape(-1) * weights).sum()


def failure_of(program: Callable[[torch.Tensor], object], x: torch.Tensor) -> Exception:
    """What ``program`` raises, which it must."""
    try:
        program(x)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def assert_refused_alike(
    program: Callable[[torch.Tensor], object], x: torch.Tensor
) -> None:
    """``program`` raises the same type of exception on both."""
    expected = failure_of(program, x)
    assert type(failure_of(program, x.to(DEVICE))) is type(expected)


def assert_as_on_the_cpu(
    program: Callable[..., object], *arguments: object, gradients: bool = False
) -> None:
    """``program`` gives the same on both, and the same gradients if told so."""
    outcomes = []
    for device in ("cpu", DEVICE):
        ours = on(device, arguments, gradients)
        result = program(*ours)
        outcome: list[object] = [result, ours]
        if gradients:
            leaves = [x for x in tree_flatten(ours)[0] if torch.is_tensor(x)]
            _sum(result).backward()
            outcome.append([x.grad for x in leaves if x.requires_grad])
        outcomes.append(outcome)
    expected, found = outcomes
    assert_same(found, expected)
