"""The checks of operators and foreach functions, and their programs."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

import torch
from torch.testing._internal.common_utils import noncontiguous_like
from torch.testing._internal.opinfo.core import SampleInput

from tests.coverage.databases import Entry, entries
from tests.coverage.gradient_checks import gradient_trials
from tests.coverage.out_checks import out_trials
from tests.coverage.trials import Call, Trial, call_trials

_LAYOUTS = {
    "sparse_coo": torch.sparse_coo,
    "sparse_csr": torch.sparse_csr,
    "sparse_csc": torch.sparse_csc,
    "sparse_bsr": torch.sparse_bsr,
    "sparse_bsc": torch.sparse_bsc,
}


# Their other arguments must be on the CPU: PyTorch demands it for all devices.
_HOST_ARGUMENTS = frozenset({"op/tensor_split"})


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, the last dimension the one with the longest steps."""
    if tensor.dim() < 2:
        return tensor
    return (
        tensor.transpose(0, -1)
        .clone(memory_format=torch.contiguous_format)
        .transpose(0, -1)
    )


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    """One value along the last dimension, in one place."""
    if tensor.dim() == 0 or tensor.shape[-1] == 0:
        return tensor
    return tensor.narrow(-1, 0, 1).clone().expand(tensor.shape)


def _zero_size(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.narrow(0, 0, 0).clone() if tensor.dim() > 0 else tensor


def _conjugate(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, through a lazy conjugation."""
    return torch.conj(tensor.conj().resolve_conj()) if tensor.is_complex() else tensor


def _negative(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, through a lazy negation."""
    if tensor.dtype == torch.bool or not tensor.dtype.is_signed:
        return tensor
    return torch._neg_view(torch.neg(tensor))


# Other forms of the same arguments.
_FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "noncontiguous": noncontiguous_like,
    "transposed": _transposed,
    "expanded": _expanded,
    "zero_size": _zero_size,
    "conjugate": _conjugate,
    "negative": _negative,
}

_VARIANTS = {
    "method": lambda info: info.method_variant,
    "operator": lambda info: info.operator_variant,
    "inplace": lambda info: info.inplace_variant,
    "inplace_operator": lambda info: info.inplace_operator_variant,
}


def operator_checks(entry: Entry, dtype: torch.dtype) -> list[str]:
    """The checks that the entry has for this dtype."""
    info = entry.info
    checks = ["forward"]
    checks += [name for name, find in _VARIANTS.items() if find(info) is not None]
    if info.aliases:
        checks.append("aliases")
    if info.supports_out and entry.database == "op":
        checks.append("out")
    checks += ["noncontiguous", "transposed", "expanded", "zero_size"]
    if dtype.is_complex:
        checks.append("conjugate")
    if dtype.is_signed and dtype != torch.bool:
        checks.append("negative")
    if dtype in info.supported_backward_dtypes("cpu"):
        checks.append("backward")
        if info.supports_gradgrad:
            checks.append("double_backward")
        if info.supports_forward_ad:
            checks.append("forward_mode")
    if entry.database == "op":
        checks += [
            name
            for name, layout in _LAYOUTS.items()
            if info.supports_sparse_layout(layout)
        ]
    return checks


def thin(samples: list[Any], limit: int) -> list[Any]:
    """At most ``limit`` of the samples, spread over all; 0 is no limit."""
    if limit == 0 or len(samples) <= limit:
        return samples
    return [samples[i * len(samples) // limit] for i in range(limit)]


@lru_cache(maxsize=2)
def _samples(
    key: str, dtype: torch.dtype, requires_grad: bool, limit: int
) -> list[Any]:
    """The entry's samples; consecutive checks share them."""
    entry = entries()[key]
    samples = list(
        entry.info.sample_inputs("cpu", dtype, requires_grad, set_seed=False)
        if entry.database == "op"
        else entry.info.sample_inputs_func(entry.info, "cpu", dtype, requires_grad)
    )
    return thin(samples, limit)


def _calls(
    entry: Entry, dtype: torch.dtype, limit: int, requires_grad: bool = False
) -> list[Call]:
    torch.manual_seed(0)
    on_host = entry.key in _HOST_ARGUMENTS
    samples = _samples(entry.key, dtype, requires_grad, limit)
    return [Call.of(sample, on_host) for sample in samples]


def _sparse_calls(
    entry: Entry, dtype: torch.dtype, layout: torch.layout, limit: int
) -> list[Call]:
    torch.manual_seed(0)
    try:
        samples = list(entry.info.sample_inputs_sparse(layout, "cpu", dtype))
    except NotImplementedError:  # no samples of this layout: dense ones will do
        dense = _samples(entry.key, dtype, False, 0)
        samples = [s for s in (_to_layout(each, layout) for each in dense) if s]
    return [Call.of(sample) for sample in thin(samples, limit)]


def _to_layout(sample: Any, layout: torch.layout) -> Any:
    """The sample with its input in that layout; None if that can't be."""
    if not isinstance(sample.input, torch.Tensor):
        return None
    blocks = (1, 1) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    try:
        sparse = sample.input.to_sparse(layout=layout, blocksize=blocks)
    except (RuntimeError, NotImplementedError):
        return None
    return SampleInput(sparse, args=sample.args, kwargs=sample.kwargs)


def _alias_trials(info: Any, calls: list[Call]) -> Iterator[Trial]:
    for alias in info.aliases:
        for function in (alias.op, alias.method_variant, alias.inplace_variant):
            if function is not None:
                yield from call_trials(function, calls)


def error_trials(entry: Entry, limit: int) -> Iterable[Trial]:
    """Calls that the entry says are wrong."""
    torch.manual_seed(0)
    inputs = list(entry.info.error_inputs("cpu", set_seed=False))
    calls = [Call.of(each.sample_input) for each in thin(inputs, limit)]
    return call_trials(entry.info.op, calls)


def _foreach_zero_size(entry: Entry, dtype: torch.dtype, limit: int) -> list[Call]:
    torch.manual_seed(0)
    samples = list(entry.info.sample_zero_size_inputs("cpu", dtype))
    return [Call.of(sample) for sample in thin(samples, limit)]


def operator_trials(
    entry: Entry, dtype: torch.dtype, check: str, limit: int
) -> Iterable[Trial]:
    """The programs of one check."""
    info = entry.info
    function = info.op if info.op is not None else info.inplace_variant
    if check in _LAYOUTS:
        return call_trials(
            function, _sparse_calls(entry, dtype, _LAYOUTS[check], limit)
        )
    if check in ("backward", "double_backward", "forward_mode"):
        calls = _calls(entry, dtype, limit, requires_grad=True)
        wrapped = partial(info.gradcheck_wrapper, function)
        return gradient_trials(check, wrapped, calls)
    calls = _calls(entry, dtype, limit)
    if check == "zero_size" and entry.database == "foreach":
        own = _foreach_zero_size(entry, dtype, limit)
        if own:
            return call_trials(function, own)
    if check in _FORMS:
        return call_trials(function, [call.map(_FORMS[check]) for call in calls])
    if check in _VARIANTS:
        return call_trials(_VARIANTS[check](info), calls)
    if check == "aliases":
        return _alias_trials(info, calls)
    if check == "out":
        return out_trials(function, calls)
    assert check == "forward", check
    return call_trials(function, calls)
