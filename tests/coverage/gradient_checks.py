"""Programs that differentiate: backward, double backward, forward mode."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad

from tests.coverage.outcome import Observed, Program
from tests.coverage.trials import Call, Trial, tensors_of, weights_like

Function = Callable[..., Any]


def _differentiable(values: Any) -> list[torch.Tensor]:
    return [x for x in tensors_of(values) if x.requires_grad]


def gradients(
    outputs: Any, inputs: list[torch.Tensor], *, create_graph: bool, seed: int
) -> list[torch.Tensor | None]:
    """The gradients of a weighted sum of the outputs."""
    roots = _differentiable(outputs)
    return list(
        torch.autograd.grad(
            roots,
            inputs,
            [weights_like(root, seed) for root in roots],
            create_graph=create_graph,
            allow_unused=True,
        )
    )


def _backward(function: Function, call: Call, device: str) -> Observed:
    args, kwargs = call.on(device)
    inputs = _differentiable((args, kwargs))
    outputs = function(*args, **kwargs)
    grads = gradients(outputs, inputs, create_graph=False, seed=1)
    return Observed((args, kwargs), (outputs, grads))


def _double_backward(function: Function, call: Call, device: str) -> Observed:
    args, kwargs = call.on(device)
    inputs = _differentiable((args, kwargs))
    outputs = function(*args, **kwargs)
    first = gradients(outputs, inputs, create_graph=True, seed=1)
    second = gradients(first, inputs, create_graph=False, seed=2)
    return Observed((args, kwargs), (outputs, first, second))


def _forward_mode(function: Function, call: Call, device: str) -> Observed:
    args, kwargs = call.on(device)
    with forward_ad.dual_level():

        def dual(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not value.requires_grad:
                return value
            plain = value.detach()
            return forward_ad.make_dual(plain, weights_like(plain, seed=3))

        dual_args, dual_kwargs = torch.utils._pytree.tree_map(dual, (args, kwargs))
        outputs = tensors_of(function(*dual_args, **dual_kwargs))
        pairs = [tuple(forward_ad.unpack_dual(output)) for output in outputs]
    return Observed((args, kwargs), pairs)


_PROGRAMS = {
    "backward": _backward,
    "double_backward": _double_backward,
    "forward_mode": _forward_mode,
}


def gradient_trials(
    check: str, function: Function, calls: Iterable[Call]
) -> Iterator[Trial]:
    """``check`` is one of the kinds of derivative."""

    def make(call: Call) -> Program:
        return lambda device: _PROGRAMS[check](function, call, device)

    for number, call in enumerate(calls):
        if _differentiable((call.args, call.kwargs)):
            yield Trial(f"sample {number}", make(call))
