"""Programs that hand an operator the tensors to write to."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map

from tests.coverage.outcome import Observed, Program
from tests.coverage.trials import Call, Trial

Make = Callable[[torch.Tensor], torch.Tensor]


def _filled(
    result: torch.Tensor, size: Any, stride: Any = None, dtype: Any = None
) -> torch.Tensor:
    """A tensor of ones on the result's device."""
    dtype = result.dtype if dtype is None else dtype
    if stride is None:
        return torch.ones(size, dtype=dtype, device=result.device)
    return torch.empty_strided(size, stride, dtype=dtype, device=result.device).fill_(1)


def _like(result: torch.Tensor) -> torch.Tensor:
    return _filled(result, result.shape, result.stride())


def _with_gaps(result: torch.Tensor) -> torch.Tensor:
    return _filled(result, (*result.shape, 2))[..., 0]


def _reversed_strides(result: torch.Tensor) -> torch.Tensor:
    return _filled(result, result.shape[::-1]).permute(*reversed(range(result.dim())))


def _too_large(result: torch.Tensor) -> torch.Tensor:
    return _filled(result, [size + 1 for size in result.shape] or (2,))


def _empty(result: torch.Tensor) -> torch.Tensor:
    return _filled(result, (0,))


def _other_dtype(result: torch.Tensor) -> torch.Tensor:
    """One that the result can't be converted to, or that is wider."""
    if result.dtype.is_floating_point or result.dtype.is_complex:
        return _filled(result, result.shape, dtype=torch.int64)
    return _filled(result, result.shape, dtype=torch.bool)


def _wider_dtype(result: torch.Tensor) -> torch.Tensor:
    wide = torch.complex128 if result.dtype.is_complex else torch.float64
    return _filled(result, result.shape, dtype=wide)


def _with_gradient(result: torch.Tensor) -> torch.Tensor:
    out = _like(result)
    can = result.dtype.is_floating_point or result.dtype.is_complex
    return out.requires_grad_() if can else out


_KINDS: dict[str, Make] = {
    "as the result": _like,
    "with gaps": _with_gaps,
    "reversed strides": _reversed_strides,
    "too large": _too_large,
    "empty": _empty,
    "other dtype": _other_dtype,
    "wider dtype": _wider_dtype,
    "with gradient": _with_gradient,
}


def _program(function: Callable[..., Any], call: Call, make: Make) -> Program:
    def program(device: str) -> Observed:
        args, kwargs = call.on(device)
        expected = function(*args, **kwargs)
        out = tree_map(
            lambda x: make(x) if isinstance(x, torch.Tensor) else x, expected
        )
        if isinstance(out, tuple):  # of a named tuple's type, which is not wanted
            out = tuple(out)
        result = function(*args, **kwargs, out=out)
        return Observed((args, kwargs, out), (expected, result))

    return program


def out_trials(function: Callable[..., Any], calls: Iterable[Call]) -> Iterator[Trial]:
    """Every kind of ``out`` for each of the arguments."""
    for number, call in enumerate(calls):
        for kind, make in _KINDS.items():
            yield Trial(f"sample {number}, out {kind}", _program(function, call, make))
