"""The checks of optimizers, and their programs."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

import torch

from tests.coverage.databases import Entry
from tests.coverage.operator_checks import thin
from tests.coverage.outcome import Observed, Program
from tests.coverage.transplant import Transplant
from tests.coverage.trials import Trial, weights_like

_STEPS = 4
_SHAPES = ((5, 3), (4, 4), (1, 7))
# With these options, what is differentiable holds itself in a cycle of its graph, and
# leaks on the CPU too: a step leaves memory there that the profiler saw nobody free.
_LEAKING = {
    "Adam": ("amsgrad", "weight_decay"),
    "Adamax": ("weight_decay",),
    "RMSprop": ("centered", "weight_decay"),
}


def optimizer_checks() -> list[str]:
    """The checks that every optimizer has."""
    return ["steps", "state_dict"]


def _parameters(device: str, dtype: torch.dtype, leaf: bool) -> list[torch.Tensor]:
    made = []
    for number, shape in enumerate(_SHAPES):
        like = torch.empty(shape, dtype=dtype, device=device)
        parameter = torch.nn.Parameter(weights_like(like, seed=number))
        made.append(parameter if leaf else parameter.clone())
    return made


def _loss(parameters: list[torch.Tensor]) -> torch.Tensor:
    """Something with a slope; complex parameters count by their size."""
    total = torch.zeros((), device=parameters[0].device)
    for parameter in parameters:
        total = total + (parameter - 0.5).abs().pow(2).sum().float()
    return total


def _grad_of(parameter: torch.Tensor, step: int, sparse: bool) -> torch.Tensor:
    grad = parameter.detach() * 0.3 + weights_like(parameter, seed=10 + step)
    return grad.to_sparse() if sparse else grad


class _Run:
    """An optimizer and its parameters."""

    def __init__(
        self, entry: Entry, kwargs: dict[str, Any], device: str, dtype: torch.dtype
    ) -> None:
        self._entry = entry
        self._device = device
        self._kwargs = Transplant(device)(deepcopy(kwargs))
        leaf = not kwargs.get("differentiable", False)
        self.parameters = _parameters(device, dtype, leaf)
        self.optimizer = entry.info.optim_cls(self.parameters, **self._kwargs)

    def step(self, number: int) -> None:
        if self._entry.info.step_requires_closure:
            self.optimizer.step(self._closure)
            return
        sparse = self._entry.info.only_supports_sparse_grads
        for parameter in self.parameters:
            parameter.grad = _grad_of(parameter, number, sparse)
        self.optimizer.step()

    def _closure(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = _loss(self.parameters)
        loss.backward()
        return loss

    def seen(self) -> Any:
        state = self.optimizer.state_dict()
        return [p.detach() for p in self.parameters], state["state"]


def _program(
    entry: Entry, kwargs: dict[str, Any], dtype: torch.dtype, check: str
) -> Program:
    def program(device: str) -> Observed:
        run = _Run(entry, kwargs, device, dtype)
        for number in range(_STEPS):
            run.step(number)
        if check == "steps":
            return Observed((), run.seen())
        other = _Run(entry, kwargs, device, dtype)
        with torch.no_grad():
            for mine, theirs in zip(other.parameters, run.parameters, strict=True):
                mine.copy_(theirs)
        other.optimizer.load_state_dict(deepcopy(run.optimizer.state_dict()))
        run.step(_STEPS)
        other.step(_STEPS)
        return Observed((), (run.seen(), other.seen()))

    return program


def optimizer_trials(
    entry: Entry, dtype: torch.dtype, check: str, limit: int
) -> Iterator[Trial]:
    """The programs of one check: all configurations that the CPU takes."""
    for desc, kwargs in thin(list(_configurations(entry, dtype)), limit):
        yield Trial(desc, _program(entry, kwargs, dtype, check))


def _configurations(
    entry: Entry, dtype: torch.dtype
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The database's, in every implementation that the CPU has.

    Never PyTorch's own choice, which differs between devices.
    """
    info = entry.info
    flags = [
        flag
        for flag in info.supported_impls
        if flag != "fused" or "cpu" in info.supports_fused_on
    ]
    for each in info.optim_inputs_func("cpu"):
        plain = {**each.kwargs, **dict.fromkeys(flags, False)}
        yield each.desc, plain
        for flag in flags:
            if not _is_broken(entry, each.kwargs, flag, dtype):
                yield f"{each.desc}, {flag}", {**plain, flag: True}


def _is_broken(
    entry: Entry, kwargs: dict[str, Any], flag: str, dtype: torch.dtype
) -> bool:
    """Whether PyTorch itself fails, on the CPU too.

    The fused SGD reads beyond small buffers in half precision: its results vary.
    """
    if entry.name == "SGD":
        return flag == "fused" and dtype.itemsize == 2
    leaking = _LEAKING.get(entry.name)
    return (
        leaking is not None
        and flag == "differentiable"
        and all(kwargs.get(name) for name in leaking)
    )


def optimizer_error_trials(entry: Entry, limit: int) -> Iterable[Trial]:
    """Optimizers that the entry says are wrong."""
    make = entry.info.optim_error_inputs_func
    if make is None:
        return
    for number, each in enumerate(thin(list(make("cpu", torch.float32)), limit)):
        given = each.optimizer_error_input

        def program(device: str, given: Any = given) -> Observed:
            params, kwargs = Transplant(device)((given.params, given.kwargs))
            optimizer = entry.info.optim_cls(params, **kwargs)
            optimizer.step()
            return Observed((), ())

        yield Trial(f"error {number} {given.desc}", program)
