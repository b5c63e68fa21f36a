"""Random programs give on the device what they give on the CPU, exactly.

A program is a list of steps on a pool of tensors: operators, views, writes in
place, ``out=``, other streams and changed settings. A step that the CPU refuses
must be refused on the device, with the same type, and change nothing.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from compare import DEVICE, assert_same_tensor, threads
from hypothesis import given, settings
from hypothesis import strategies as st
from promises import runs_at_the_call
from torch.nn import functional

Tensor = torch.Tensor
DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
LIMIT = 12  # tensors in the pool
LARGE = 4096  # elements; larger results are not kept

# Each takes two tensors and a small number; many ignore some of them.
Operation = Callable[[Tensor, Tensor, int], object]

POINTWISE: dict[str, Operation] = {
    "add": lambda x, y, n: x + y,
    "sub": lambda x, y, n: x - y,
    "mul": lambda x, y, n: x * y,
    "div": lambda x, y, n: x / y,
    "add number": lambda x, y, n: x + n,
    "mul by half": lambda x, y, n: x * (n + 0.5),
    "rsub": lambda x, y, n: n - x,
    "pow": lambda x, y, n: x**2,
    "neg": lambda x, y, n: -x,
    "sign": lambda x, y, n: x.sgn(),
    "relu": lambda x, y, n: x.relu(),
    "tanh": lambda x, y, n: x.tanh(),
    "compare": lambda x, y, n: x > y,
    "equal": lambda x, y, n: x == y,
    "where": lambda x, y, n: torch.where(x > n, x, y),
    "clamp": lambda x, y, n: x.clamp(0, n),
    "convert": lambda x, y, n: x.to(DTYPES[n % len(DTYPES)]),
    "like": lambda x, y, n: x.to(y.dtype),
    "clone": lambda x, y, n: x.clone(),
    "nan": lambda x, y, n: x.isnan(),
    "not": lambda x, y, n: ~x,
    "lerp": lambda x, y, n: torch.lerp(x, y, 0.5),
    "foreach": lambda x, y, n: torch._foreach_add([x, y], n)[1],
    "value of the host": lambda x, y, n: x * torch.tensor(n),
    "value of the device": lambda x, y, n: x * y.flatten()[:1].sum(),
}
SHAPED: dict[str, Operation] = {
    "sum": lambda x, y, n: x.sum(),
    "sum of a dimension": lambda x, y, n: x.sum(n % 3 - 1),
    "mean": lambda x, y, n: x.mean(-1, keepdim=True),
    "max": lambda x, y, n: x.max(-1)[n % 2],
    "argmin": lambda x, y, n: x.argmin(),
    "cumsum": lambda x, y, n: x.cumsum(n % 2),
    "softmax": lambda x, y, n: functional.softmax(x, -1),
    "layer_norm": lambda x, y, n: functional.layer_norm(x, x.shape[-1:]),
    "matmul": lambda x, y, n: x @ y,
    "matmul transposed": lambda x, y, n: x @ y.mT,
    "outer": lambda x, y, n: torch.outer(x.flatten()[:5], y.flatten()[:5]),
    "cat": lambda x, y, n: torch.cat([x, y], n % 2),
    "stack": lambda x, y, n: torch.stack([x, y], n % 2),
    "sort": lambda x, y, n: x.sort(stable=True)[n % 2],
    "flip": lambda x, y, n: x.flip(0),
    "roll": lambda x, y, n: x.roll(n, 0),
    "tril": lambda x, y, n: x.tril(n - 1),
    "index": lambda x, y, n: x[torch.arange(n, device=x.device) % 2],
    "gather": lambda x, y, n: x.gather(0, y.long() % 2),
    "mask": lambda x, y, n: x[x > y],
    "nonzero": lambda x, y, n: x.nonzero(),
    "unique": lambda x, y, n: x.unique(),
    "pad": lambda x, y, n: functional.pad(x, (1, n)),
    "repeat": lambda x, y, n: x.repeat(n, 1),
    "split": lambda x, y, n: x.split_with_sizes([1, x.shape[0] - 1])[n % 2] + 0,
    "arange": lambda x, y, n: torch.arange(n + 0.5, device=x.device),
    "full": lambda x, y, n: torch.full((n, 2), n / 2, device=x.device),
    "zeros_like": lambda x, y, n: torch.zeros_like(x),
    "new_ones": lambda x, y, n: x.new_ones(n, 3),
    "embedding": lambda x, y, n: functional.embedding(y.long() % x.shape[0], x),
    "histogram": lambda x, y, n: torch.bincount(x.flatten().long().abs() % 7),
}
VIEWS: dict[str, Operation] = {
    "transpose": lambda x, y, n: x.transpose(0, -1),
    "permute": lambda x, y, n: x.permute(*reversed(range(x.dim()))),
    "row": lambda x, y, n: x[n % 2],
    "slice": lambda x, y, n: x[n % 2 :],
    "step": lambda x, y, n: x[..., ::2],
    "flat": lambda x, y, n: x.view(-1),
    "reshape": lambda x, y, n: x.reshape(2, -1),
    "new dimension": lambda x, y, n: x.unsqueeze(n % 2),
    "squeeze": lambda x, y, n: x.squeeze(),
    "expand": lambda x, y, n: x.expand(n, *x.shape),
    "diagonal": lambda x, y, n: x.diagonal(),
    "unfold": lambda x, y, n: x.unfold(0, 2, 1),
    "strided": lambda x, y, n: x.as_strided((2, 2), (1, 2)),
    "bits": lambda x, y, n: x.view(torch.int32),
    "conj": lambda x, y, n: x.conj(),
    "imag": lambda x, y, n: x.conj().imag,
    "real": lambda x, y, n: torch.view_as_real(x),
    "detach": lambda x, y, n: x.detach(),
}
WRITES: dict[str, Operation] = {
    "add_": lambda x, y, n: x.add_(y),
    "sub_": lambda x, y, n: x.sub_(y, alpha=n),
    "mul_": lambda x, y, n: x.mul_(n),
    "div_": lambda x, y, n: x.div_(2),
    "copy_": lambda x, y, n: x.copy_(y + 0),
    "fill_": lambda x, y, n: x.fill_(n),
    "zero_": lambda x, y, n: x.zero_(),
    "relu_": lambda x, y, n: x.relu_(),
    "neg_": lambda x, y, n: x.neg_(),
    "clamp_": lambda x, y, n: x.clamp_(max=n),
    "masked_fill_": lambda x, y, n: x.masked_fill_(x > y, n),
    "setitem": lambda x, y, n: x.__setitem__(n % 2, y + 0),
    "set a slice": lambda x, y, n: x[..., ::2].fill_(n),
    "index_add_": lambda x, y, n: x.index_add_(
        0, torch.arange(y.shape[0], device=x.device) % 2, y + 0
    ),
    "cumsum_": lambda x, y, n: x.cumsum_(0),
    "t_": lambda x, y, n: x.t_(),
    "add out": lambda x, y, n: torch.add(y, n, out=x.clone()),
    "matmul out": lambda x, y, n: torch.matmul(y, y.mT, out=x.clone()),
    "cat out": lambda x, y, n: torch.cat([y, y], out=x.clone()),
    "foreach_": lambda x, y, n: torch._foreach_mul_([x], n),
    "normal_": lambda x, y, n: x.normal_(),
    "bernoulli_": lambda x, y, n: x.bernoulli_(0.5 * n),
    "random_": lambda x, y, n: x.random_(0, n),
    "add into itself": lambda x, y, n: torch.add(x, n, out=x),
    "dropout_": lambda x, y, n: functional.dropout(x, 0.5, inplace=True),
}
OPERATIONS = POINTWISE | SHAPED | VIEWS | WRITES


@dataclass(frozen=True)
class Step:
    """One operation on tensors of the pool, by their numbers."""

    name: str
    first: int
    second: int
    number: int
    stream: int  # of three


@dataclass(frozen=True)
class Program:
    """Tensors to begin with, and what is done to them."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]
    steps: tuple[Step, ...]
    default_dtype: torch.dtype
    deterministic: bool
    changes_at: int  # the step before which the settings change


def start(shape: tuple[int, ...], dtype: torch.dtype, index: int) -> Tensor:
    """Small numbers of both signs."""
    count = torch.Size(shape).numel()
    values = (torch.arange(count) * 7 + index * 3) % 11 - 4
    if dtype == torch.uint8:
        values = values.abs()
    return values.to(dtype).reshape(shape)


def run(program: Program, device: str) -> Iterator[object]:
    """Yield the pool's new tensor, or the type of what was raised, step by step."""
    pool = [
        start(shape, dtype, index).to(device)
        for index, (shape, dtype) in enumerate(
            zip(program.shapes, program.dtypes, strict=True)
        )
    ]
    streams = [torch.openreg.Stream() for _ in range(2)] if device == DEVICE else []
    for index, step in enumerate(program.steps):
        if index == program.changes_at:
            torch.set_default_dtype(program.default_dtype)
            torch.use_deterministic_algorithms(program.deterministic, warn_only=True)
        x, y = (pool[i % len(pool)] for i in (step.first, step.second))
        with on_stream(streams, step.stream):
            try:
                with failures_of_data_first():
                    result = OPERATIONS[step.name](x, y, step.number)
            except Exception as error:
                yield kind_of(error)
                continue
        if isinstance(result, Tensor) and result.numel() <= LARGE:
            pool.append(result)
            del pool[: max(0, len(pool) - LIMIT)]
        yield None
    yield pool


@contextmanager
def failures_of_data_first() -> Iterator[None]:
    """Raise failures that a device tells later, if there are any.

    What the block raises by itself comes from a later operator than those.
    """
    try:
        yield
    finally:
        if not runs_at_the_call():
            torch.openreg.synchronize()


def kind_of(error: Exception) -> str:
    """The name of the type, also where a device has told of it later."""
    name = type(error).__name__
    if isinstance(error, torch.AcceleratorError) and not runs_at_the_call():
        later = re.search(r" failed on device \d+: (\w+): ", str(error))
        name = later[1] if later is not None else name
    return name.lstrip("_")


class on_stream:  # noqa: N801 (used as a statement)
    """Runs the block on one of the streams, after and before all other work."""

    def __init__(self, streams: list[torch.openreg.Stream], index: int) -> None:
        self._stream = ([None, *streams])[index] if streams else None

    def __enter__(self) -> None:
        if self._stream is not None:
            self._before = torch.openreg.current_stream()
            self._stream.wait_stream(self._before)
            torch.openreg.set_stream(self._stream)

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            torch.openreg.set_stream(self._before)
            self._before.wait_stream(self._stream)


def places(tensor: Tensor) -> list[int]:
    """The strides that decide where elements lie."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if size > 1 and tensor.numel() > 0]


steps = st.builds(
    Step,
    name=st.sampled_from(list(OPERATIONS)),
    first=st.integers(0, LIMIT - 1),
    second=st.integers(0, LIMIT - 1),
    number=st.integers(0, 3),
    stream=st.integers(0, 2),
)
programs = st.builds(
    Program,
    shapes=st.tuples(*[st.lists(st.integers(0, 4), max_size=3).map(tuple)] * 3),
    dtypes=st.tuples(*[st.sampled_from(DTYPES)] * 3),
    steps=st.lists(steps, min_size=3, max_size=25).map(tuple),
    default_dtype=st.sampled_from([torch.float32, torch.float64]),
    deterministic=st.booleans(),
    changes_at=st.integers(0, 25),
)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=2500, deadline=None, database=None, derandomize=True)
@given(programs)
def test_every_program_gives_the_cpus_results(program):
    outcomes = []
    with threads(1):
        for device in (DEVICE, "cpu"):
            try:
                torch.manual_seed(1)
                outcomes.append(list(run(program, device)))
                torch.openreg.synchronize()
            finally:
                torch.set_default_dtype(torch.float32)
                torch.use_deterministic_algorithms(False)
    (*found_errors, found), (*errors, expected) = outcomes
    assert found_errors == errors
    for ours, theirs in zip(found, expected, strict=True):
        assert_same_tensor(ours, theirs, strides=False)
        assert places(ours) == places(theirs)
