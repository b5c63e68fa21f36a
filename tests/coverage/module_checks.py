"""The checks of modules, and their programs."""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from tests.coverage.databases import Entry
from tests.coverage.gradient_checks import gradients, gradients_twice
from tests.coverage.operator_checks import thin
from tests.coverage.outcome import Observed, Program
from tests.coverage.transplant import Transplant
from tests.coverage.trials import Trial, tensors_of


def module_checks(entry: Entry) -> list[str]:
    """The checks that the module has."""
    checks = ["train", "eval", "backward"]
    if entry.info.supports_gradgrad:
        checks.append("double_backward")
    if "device" in inspect.signature(entry.info.module_cls.__init__).parameters:
        checks.append("construct")
    return checks


def _construct(entry: Entry, given: Any, move: Transplant, **factory: Any) -> Any:
    args, kwargs = move((given.args, given.kwargs))
    return entry.info.module_cls(*args, **kwargs, **factory)


def _state(module: torch.nn.Module) -> dict[str, Any]:
    lazy = torch.nn.parameter.UninitializedTensorMixin
    return {k: v for k, v in module.state_dict().items() if not isinstance(v, lazy)}


def _construct_program(entry: Entry, given: Any, dtype: torch.dtype) -> Program:
    """Made on the device, from the start."""

    def program(device: str) -> Observed:
        module = _construct(
            entry, given, Transplant(device), device=device, dtype=dtype
        )
        return Observed((), _state(module))

    return program


def _program(
    entry: Entry, each: Any, dtype: torch.dtype, training: bool, check: str
) -> Program:
    """Made on the CPU and moved, and called."""

    def program(device: str) -> Observed:
        move = Transplant(device)
        module = _construct(entry, each.constructor_input, move)
        module = module.to(device).to(dtype).train(training)
        given = each.forward_input
        args, kwargs = move((given.args, given.kwargs))
        outputs = module(*args, **kwargs)
        observed = Observed((args, kwargs), (outputs, _state(module)))
        if check in ("train", "eval"):
            return observed
        inputs = [x for x in tensors_of((args, kwargs)) if x.requires_grad]
        inputs += [p for p in module.parameters() if p.requires_grad]
        differentiate = gradients_twice if check == "double_backward" else gradients
        observed.outputs = (*observed.outputs, differentiate(outputs, inputs))
        return observed

    return program


def module_trials(
    entry: Entry, dtype: torch.dtype, check: str, limit: int
) -> Iterator[Trial]:
    """The programs of one check."""
    torch.manual_seed(0)
    differentiate = "backward" in check
    training = check != "eval"
    inputs = entry.info.module_inputs_func(
        entry.info, "cpu", dtype, requires_grad=differentiate, training=training
    )
    for number, each in enumerate(thin(list(inputs), limit)):
        if check == "construct":
            program = _construct_program(entry, each.constructor_input, dtype)
        elif each.forward_input is None:
            continue
        else:
            program = _program(entry, each, dtype, training, check)
        yield Trial(f"sample {number} {each.desc}".strip(), program)


def module_error_trials(entry: Entry, limit: int) -> Iterable[Trial]:
    """Modules and calls that the entry says are wrong."""
    if entry.info.module_error_inputs_func is None:
        return
    torch.manual_seed(0)
    inputs = entry.info.module_error_inputs_func(
        entry.info, "cpu", torch.float32, requires_grad=False, training=True
    )
    for number, each in enumerate(thin(list(inputs), limit)):
        given = each.module_error_input
        if given.forward_input is None:
            program = _construct_program(entry, given.constructor_input, torch.float32)
        else:
            program = _program(entry, given, torch.float32, True, "train")
        yield Trial(f"error {number}", program)
