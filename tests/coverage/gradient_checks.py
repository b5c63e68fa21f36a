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


class _Join(torch.autograd.Function):
    """One root for several results, with given gradients.

    From several roots autograd would start as soon as it meets the first, on the
    device's thread, and add gradients up in an order that varies.
    """

    @staticmethod
    def forward(
        ctx: Any, weights: list[torch.Tensor], *roots: torch.Tensor
    ) -> torch.Tensor:
        ctx.weights = weights
        return torch.zeros((), device=roots[0].device)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return None, *ctx.weights


def _grad(
    outputs: Any, weights: list[torch.Tensor], inputs: list[torch.Tensor], again: bool
) -> list[torch.Tensor | None]:
    roots = _differentiable(outputs)
    if not roots:
        raise RuntimeError("no result can be differentiated")
    root = _Join.apply(weights, *roots)
    return list(
        torch.autograd.grad(root, inputs, create_graph=again, allow_unused=True)
    )


def _weights(outputs: Any, seed: int) -> list[torch.Tensor]:
    return [weights_like(root, seed) for root in _differentiable(outputs)]


def gradients(outputs: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """The gradients of a weighted sum of the outputs."""
    return _grad(outputs, _weights(outputs, seed=1), inputs, again=False)


def gradients_twice(outputs: Any, inputs: list[torch.Tensor]) -> tuple[Any, Any]:
    """The gradients, and theirs, which depend on the inputs and on the weights.

    On one thread: threads number their nodes apart, and autograd goes by numbers. With
    the device's thread, gradients would be added up in another order.
    """
    with torch.autograd.set_multithreading_enabled(False):
        weights = [weight.requires_grad_() for weight in _weights(outputs, seed=1)]
        first = _grad(outputs, weights, inputs, again=True)
        if not _differentiable(first):
            return first, []
        second = _weights(first, seed=2)
        return first, _grad(first, second, [*inputs, *weights], again=False)


def _backward(function: Function, call: Call, device: str) -> Observed:
    args, kwargs = call.on(device)
    inputs = _differentiable((args, kwargs))
    outputs = function(*args, **kwargs)
    return Observed((args, kwargs), (outputs, gradients(outputs, inputs)))


def _double_backward(function: Function, call: Call, device: str) -> Observed:
    args, kwargs = call.on(device)
    inputs = _differentiable((args, kwargs))
    outputs = function(*args, **kwargs)
    return Observed((args, kwargs), (outputs, gradients_twice(outputs, inputs)))


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
