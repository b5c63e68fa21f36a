"""A trial: one program that is run on both devices, and what it is called with."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from tests.coverage.outcome import Observed, Program
from tests.coverage.transplant import Transplant


@dataclass(frozen=True)
class Trial:
    """``label`` tells which sample it is."""

    label: str
    program: Program


@dataclass(frozen=True)
class Call:
    """The arguments of an operator, on the CPU."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    on_host: bool = False
    """All but the first argument stay on the CPU."""

    @staticmethod
    def of(sample: Any, on_host: bool = False) -> "Call":
        """Those of a SampleInput."""
        return Call((sample.input, *sample.args), dict(sample.kwargs), on_host)

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Call":
        """The call with every strided tensor changed."""

        def leaf(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
                return value
            if value.is_nested:
                return value
            with torch.no_grad():
                changed = change(value.detach())
            return changed.requires_grad_(value.requires_grad)

        args, kwargs = tree_map(leaf, (self.args, self.kwargs))
        return Call(args, kwargs, self.on_host)

    def on(self, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments on ``device``."""
        if self.on_host:
            first, *others = self.args
            rest = Transplant("cpu")((others, self.kwargs))
            return (Transplant(device)(first), *rest[0]), rest[1]
        return Transplant(device)((self.args, self.kwargs))


def call_trials(function: Callable[..., Any], calls: Iterable[Call]) -> Iterator[Trial]:
    """``function`` of each of the arguments."""

    def make(call: Call) -> Program:
        def program(device: str) -> Observed:
            args, kwargs = call.on(device)
            return Observed((args, kwargs), function(*args, **kwargs))

        return program

    for number, call in enumerate(calls):
        yield Trial(f"sample {number}", make(call))


def tensors_of(values: Any) -> list[torch.Tensor]:
    """The tensors in nested values, in order."""
    return [x for x in tree_flatten(values)[0] if isinstance(x, torch.Tensor)]


def weights_like(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Random numbers as the tensor is, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    return numbers.to(tensor.dtype).to(tensor.device)
