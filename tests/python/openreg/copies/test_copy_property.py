"""Whatever is copied wherever: the result is the CPU's, byte for byte."""

from dataclasses import dataclass, replace
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

DEVICES = ("cpu", "openreg:0", "openreg:1")
DIRECTIONS = [pair for pair in product(DEVICES, DEVICES) if pair != ("cpu", "cpu")]
DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex32,
    torch.complex64,
    torch.complex128,
)
# Negative numbers have no place in these, or the CPU has no negation for them; for
# complex32 it lacks negation and conjugation at once.
NEVER_NEGATED = {
    torch.bool,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex32,
}


@dataclass(frozen=True)
class Layout:
    """How a tensor of a shape lies in the memory of a larger one."""

    order: tuple[int, ...]  # of the dimensions in memory
    before: tuple[int, ...]  # unused rows in front of each dimension
    steps: tuple[int, ...]
    expanded: tuple[bool, ...]  # dimensions that are one row, seen many times
    conjugated: bool
    negated: bool

    def memory(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The size of the larger tensor, in the order of memory."""
        sizes = [
            before + (1 if one_row else size) * step
            for size, before, step, one_row in zip(
                shape, self.before, self.steps, self.expanded, strict=True
            )
        ]
        return tuple(sizes[i] for i in self.order)

    def view(self, base: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        """The tensor of ``shape`` inside of ``base``."""
        back = sorted(range(len(shape)), key=lambda i: self.order[i])
        view = base.permute(back)
        view = view[
            tuple(
                slice(before, None, step)
                for before, step in zip(self.before, self.steps, strict=True)
            )
        ].expand(shape)
        if self.conjugated and view.is_complex():
            view = view.conj()
        return view._neg_view() if self.negated else view


@st.composite
def layouts(draw, rank: int, may_expand: bool) -> Layout:
    flags = st.booleans() if may_expand else st.just(False)
    return Layout(
        order=tuple(draw(st.permutations(range(rank)))),
        before=tuple(draw(st.integers(0, 2)) for _ in range(rank)),
        steps=tuple(draw(st.integers(1, 3)) for _ in range(rank)),
        expanded=tuple(draw(flags) for _ in range(rank)),
        conjugated=draw(st.booleans()),
        negated=draw(st.booleans()),
    )


def fill(shape: tuple[int, ...], dtype: torch.dtype, start: int) -> torch.Tensor:
    """Small whole numbers, which every dtype holds."""
    count = torch.Size(shape).numel()
    values = (torch.arange(count) + start) % 11
    if dtype.is_complex:
        return torch.complex(values.double(), values.double() + 1).to(dtype).view(shape)
    return values.to(dtype).view(shape)


def same(found: torch.Tensor, expected: torch.Tensor, is_negated: bool) -> bool:
    """Whether all memory is the same, but for the sign of a zero that was negated.

    Before or after a conversion to complex numbers: each gives another sign.
    """
    if is_negated:
        return torch.equal(found.cpu(), expected)
    return bytes(found.untyped_storage().cpu()) == bytes(expected.untyped_storage())


@st.composite
def copies(draw):
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    # A source of fewer dimensions, or of size 1 in some, is broadcast.
    dropped = draw(st.integers(0, len(shape)))
    source_shape = tuple(
        1 if draw(st.booleans()) and draw(st.booleans()) else size
        for size in shape[dropped:]
    )
    source_dtype, target_dtype = draw(st.tuples(*[st.sampled_from(DTYPES)] * 2))
    source_layout = draw(layouts(len(source_shape), may_expand=True))
    target_layout = draw(layouts(len(shape), may_expand=False))
    if {source_dtype, target_dtype} & NEVER_NEGATED:
        source_layout = replace(source_layout, negated=False)
        target_layout = replace(target_layout, negated=False)
    source, target = draw(st.sampled_from(DIRECTIONS))
    return (
        (source_shape, source_dtype, source_layout, source),
        (shape, target_dtype, target_layout, target),
        draw(st.booleans()),
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=1500, deadline=None, database=None, derandomize=True)
@given(copies())
def test_every_copy_is_the_cpus(copy):
    (shape, dtype, layout, device), target, non_blocking = copy
    target_shape, target_dtype, target_layout, target_device = target
    source_base = fill(layout.memory(shape), dtype, start=3)
    target_base = fill(target_layout.memory(target_shape), target_dtype, start=0)
    here, there = source_base.to(device), target_base.to(target_device, copy=True)
    # In two steps: the CPU forgets to negate when it converts half to float.
    target_layout.view(target_base, target_shape).copy_(
        layout.view(source_base, shape).to(target_dtype)
    )
    target_layout.view(there, target_shape).copy_(
        layout.view(here, shape), non_blocking=non_blocking
    )
    torch.openreg.synchronize(0)
    torch.openreg.synchronize(1)
    assert same(there, target_base, layout.negated or target_layout.negated)


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=500, deadline=None, database=None, derandomize=True)
@given(copies())
def test_every_move_is_the_cpus(copy):
    """``to`` gives the values, the dtype and the strides that it gives on the CPU."""
    (shape, dtype, layout, device), (_, target_dtype, _, target_device), _ = copy
    base = fill(layout.memory(shape), dtype, start=3)
    expected = layout.view(base, shape).to(target_dtype, copy=True)
    found = layout.view(base.to(device), shape).to(
        target_device, target_dtype, copy=True
    )
    assert str(found.device) == target_device
    assert found.dtype == target_dtype
    assert found.stride() == expected.stride()
    assert same(found, expected, layout.negated)
