"""Compares what the device gives with what the CPU gives for the same program."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.utils._pytree import tree_flatten, tree_map_only

DEVICE = "openreg"
Program = Callable[[str], object]


def numbers(*shape: int) -> torch.Tensor:
    """Numbers without a pattern, the same every time."""
    generator = torch.Generator().manual_seed(3)
    return torch.randn(shape, generator=generator)


def to_device(values: object) -> object:
    """The same with all tensors on the device; strides stay, as ``to`` keeps them."""
    return tree_map_only(torch.Tensor, lambda x: x.to(DEVICE), values)


def assert_same_tensor(
    found: torch.Tensor, expected: torch.Tensor, strides: bool = True
) -> None:
    """Same dtype, sizes, strides unless told, and values; a NaN is a NaN."""
    assert found.device.type == DEVICE
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert not strides or found.stride() == expected.stride()
    assert found.is_conj() == expected.is_conj()
    assert found.is_neg() == expected.is_neg()
    torch.testing.assert_close(
        found.cpu(), expected, rtol=0, atol=0, equal_nan=True, check_stride=False
    )


def assert_same(found: object, expected: object) -> None:
    """Nested results are the same, tensors as ``assert_same_tensor`` has it."""
    found_leaves, found_tree = tree_flatten(found)
    expected_leaves, expected_tree = tree_flatten(expected)
    assert found_tree == expected_tree
    for ours, theirs in zip(found_leaves, expected_leaves, strict=True):
        if isinstance(theirs, torch.Tensor):
            assert_same_tensor(ours, theirs)
        else:
            assert ours == theirs


def assert_as_on_the_cpu(program: Program) -> None:
    """``program`` of a device gives the same on both."""
    assert_same(program(DEVICE), program("cpu"))


def failure_of(program: Callable[[], object]) -> Exception:
    """What ``program`` raises, which it must."""
    try:
        program()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def assert_refused_as_on_the_cpu(program: Program) -> Exception:
    """``program`` raises the same type on both; returns the device's exception."""
    expected = failure_of(lambda: program("cpu"))
    found = failure_of(lambda: program(DEVICE))
    assert type(found) is type(expected), f"{found!r} instead of {expected!r}"
    return found


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Within the block, the CPU's kernels use ``count`` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
